// Which tensor of a file goes into which of a model: names and shapes only.
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
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  // the file's tensor, the model's: by their places
};

// Error, with `source` in it, where options.partial is not set and something does not fit, or is and nothing does; or
// where two names become one.
WeightsMatch match_weights(const std::vector<TensorShape>& file, const std::vector<TensorShape>& model,
                           const LoadOptions& options, const std::string& source);

// Names come out of files: without control characters, at most 120 bytes.
std::string printable(const std::string& name);

}  // namespace ddprun
