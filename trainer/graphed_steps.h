// Takes the steps of a run by a CUDA graph (--cuda-graph), as graph_plan.h decides.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "ddprun/optimizers.h"
#include "trainer/data/dataset.h"
#include "trainer/ddp/group/step_graph.h"
#include "trainer/graph_plan.h"

namespace ddprun::train {

class GraphedSteps {
 public:
  // All of a step, from a batch to the new weights. Returns the loss: one number on the device, without its graph.
  using Step = std::function<at::Tensor(const Batch& batch)>;

  // `optimizer`, which must outlive this, keeps its numbers on the device from now on. Throws Error if it cannot.
  GraphedSteps(std::unique_ptr<StepGraph> graph, TakesGraph& optimizer);

  // The step's loss, in memory of its own. The batch is copied to where the graph reads it. `step` must be the same in
  // every call, and gradients be undefined before it. Throws Error if the step cannot be recorded.
  at::Tensor take(const Batch& batch, const Step& step);

 private:
  void record(const Batch& batch, const Step& step);

  std::unique_ptr<StepGraph> graph_;
  TakesGraph& optimizer_;
  GraphPlan plan_;
  Batch batch_;      // the graph reads it
  at::Tensor loss_;  // the graph writes it
};

}  // namespace ddprun::train
