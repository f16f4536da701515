// Matches the tensors of a file to those of a model, by names and shapes only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/weights.h"

namespace ddprun {

struct TensorShape {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t identity = 0;  // a model's: the same number for names of the same tensor
};

struct WeightsMatch {
  LoadReport report;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  // index of the file's tensor, of the model's
};

// Throws Error, with `source` in it, if something does not fit and options.partial is not set, if nothing fits, or if
// two names become one.
WeightsMatch match_weights(const std::vector<TensorShape>& file, const std::vector<TensorShape>& model,
                           const LoadOptions& options, const std::string& source);

// For names from files: removes control characters, at most 120 bytes.
std::string printable(const std::string& name);

}  // namespace ddprun
