// Takes the steps of a run by a CUDA graph (--cuda-graph), as graph_plan.h decides.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "ddprun/optimizers.h"
#include "trainer/data/dataset.h"
#include "trainer/ddp/group/step_graph.h"
#include "trainer/loop/graph_plan.h"

namespace ddprun::train {

// A batch by its place in an epoch's order, which is where the data is.
struct PlacedBatch {
  at::Tensor order;  // [n] int64; another tensor in each epoch
  std::int64_t first = 0, size = 0;
  std::int64_t order_max = 0;  // no epoch has a longer order
};

class GraphedSteps {
 public:
  // All of a step, from a batch to the new weights. Returns the loss: one number on the device, without its graph.
  using Step = std::function<at::Tensor(const Batch& batch)>;

  // `optimizer`, which must outlive this, keeps its numbers on the device from now on. Throws Error if it cannot.
  GraphedSteps(std::unique_ptr<StepGraph> graph, TakesGraph& optimizer);

  // The step's loss, until the next step. The batch is copied to where the graph reads it. `step` must be the same in
  // every call, and gradients be undefined before it. Throws Error if the step cannot be recorded.
  at::Tensor take(const Batch& batch, const Step& step);
  // The same where the graph gathers the batch, too, so that a step is a single launch: its place in the order advances
  // with each repetition. In one run all steps are of one kind. `gather` makes a batch of these indices.
  using Gather = std::function<Batch(const at::Tensor& indices)>;
  at::Tensor take(const PlacedBatch& placed, const Gather& gather, const Step& step);

 private:
  StepWay next_way(const BatchShape& shape);
  void record(const std::function<void()>& step);
  void find_place(const PlacedBatch& placed);

  std::unique_ptr<StepGraph> graph_;
  TakesGraph& optimizer_;
  GraphPlan plan_;
  Batch batch_;                         // the graph reads it
  at::Tensor loss_;                     // the graph writes it
  at::Tensor order_, place_, offsets_;  // the graph reads the order at place + offsets, and advances the place
  at::Tensor given_order_;              // of which order_ is a copy
  std::int64_t next_place_ = -1;        // what place_ has
};

}  // namespace ddprun::train
