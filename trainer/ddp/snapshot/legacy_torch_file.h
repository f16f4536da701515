// The files that torch.save wrote before PyTorch 1.6, and writes with _use_new_zipfile_serialization=False: pickles one
// after the other (a magic number, a version, the machine, the object, the keys of its storages), then the storages.
//
// Pure, and safe for untrusted bytes: every length is checked, and nothing is called. Source: torch/serialization.py,
// _legacy_save.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "trainer/ddp/snapshot/pickle.h"

namespace ddprun {

bool looks_like_legacy_torch_file(std::string_view bytes);

struct LegacyTorchFile {
  Pickle pickle;
  std::map<std::string, std::string_view> storages;  // by key; they point into the file
};

// Throws Malformed (damaged.h).
LegacyTorchFile read_legacy_torch_file(std::string_view bytes);

}  // namespace ddprun
