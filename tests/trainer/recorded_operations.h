// Stands in for a CUDA graph on the CPU: records the operations that a step starts below autograd, and repeats them.
//
// As a graph it repeats them with the tensors and the numbers that they had then: whatever the host decides or counts
// in a step shows as a difference to a step that is taken again. Recording has no effect on memory and random numbers.
// A step that reads a number of a tensor is refused, as it would wait for a GPU.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <map>
#include <utility>
#include <vector>

#include "trainer/ddp/group/step_graph.h"

namespace ddprun::test {

class RecordedOperations : public StepGraph {
 public:
  explicit RecordedOperations(int& replays) : replays_(replays) {}

  void record(const std::function<void()>& step) override;
  void replay() override;

  // Called for each operation while a step is recorded, with its arguments on the stack.
  void intercept(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, std::vector<c10::IValue>& stack);

 private:
  struct Operation {
    c10::OperatorHandle operation;
    std::vector<c10::IValue> arguments, results;
  };
  void keep(const c10::IValue& argument);
  void restore();

  int& replays_;
  std::vector<Operation> operations_;
  std::map<const void*, std::pair<c10::Storage, at::Tensor>> before_;  // storages that were used, and their bytes
};

}  // namespace ddprun::test
