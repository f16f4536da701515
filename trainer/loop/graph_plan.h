// Decides how each step of a run with --cuda-graph is taken: kernel by kernel, or by its CUDA graph. A value: equal
// calls give equal answers.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace ddprun::train {

enum class StepWay {
  eager,   // kernel by kernel, as without a graph
  record,  // recorded, then done by the graph
  replay,  // done by the graph
};

// Sizes of a batch's tensors, one after the other.
using BatchShape = std::vector<std::int64_t>;

class GraphPlan {
 public:
  // Eager steps of a shape before its graph. DistributedDataParallel measures its first ten, which wait for the GPU,
  // and changes its buckets before the second; libraries choose their kernels and make their workspaces. Source:
  // PyTorch's notes on CUDA semantics, "Usage with DistributedDataParallel", which ask for eleven.
  static constexpr int kWarmUp = 11;

  // Of the next step, whose batch has this shape. `ready`: the step makes no tensor that the next one reads. The first
  // shape that is warm is recorded; a graph has one shape, so others, such as an epoch's last batch, stay eager.
  StepWay next(const BatchShape& shape, bool ready);
  bool has_graph() const { return recorded_.has_value(); }

 private:
  std::map<BatchShape, int> eager_;  // steps so far
  std::optional<BatchShape> recorded_;
};

}  // namespace ddprun::train
