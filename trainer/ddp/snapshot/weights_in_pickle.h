// Finds the weights in the pickle of a checkpoint: in a bare state_dict, in a dictionary of several things, in a whole
// module (torch.save(model)), in a TorchScript archive.
//
// Pure. `pickle` is of read_object_pickle(), and may be malformed in any way that this permits.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "trainer/ddp/snapshot/pickle.h"

namespace ddprun {

struct FoundTensor {
  std::string name;
  std::size_t tensor = 0;  // in Pickle::tensors
};

struct FoundWeights {
  std::vector<FoundTensor> tensors;  // in the file's order
  std::string entry;                 // of the dictionary, if not the whole file: "model" or "model.ema"
  // If there are no tensors: entries that have some, of which none has a usual name; else all entries.
  std::vector<std::string> candidates, entries;
};

FoundWeights find_weights(const Pickle& pickle);

}  // namespace ddprun
