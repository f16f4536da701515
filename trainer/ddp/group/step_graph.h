// A step of training that a device repeats on one call: a CUDA graph, as a value with two actions.
//
// What the host does in the step is done once, while it is recorded; repeated is what it started on the device, with
// the same tensors: each reads and writes the same memory again.
#pragma once
#include <functional>

namespace ddprun {

class StepGraph {
 public:
  virtual ~StepGraph() = default;
  // Calls `step` and records what it starts on the device instead of doing it. Once. Throws what `step` and LibTorch
  // throw, for example where the step would wait for the device.
  virtual void record(const std::function<void()>& step) = 0;
  // Starts what was recorded; does not wait for its end.
  virtual void replay() = 0;
};

}  // namespace ddprun
