// Reads the pickle of a torch.save() file into values. Data only: it knows the few names that tensors and state dicts
// are made of, refuses every other, and calls nothing.
//
// Known: dict, OrderedDict (read as a dict), list, tuple, str, int up to 64 bits, float, bool, None, torch.Size,
// tensors and parameters. An object's attributes (BUILD, such as state_dict()._metadata) are dropped. Everything
// malformed is a std::runtime_error; no length is trusted.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/core/Allocator.h>

#include <functional>
#include <string>
#include <tuple>

namespace ddprun {

// The bytes of the storage with this key.
using StorageReader = std::function<std::tuple<at::DataPtr, std::size_t>(const std::string& key)>;

c10::IValue unpickle(const std::string& pickle, const StorageReader& storage);

}  // namespace ddprun
