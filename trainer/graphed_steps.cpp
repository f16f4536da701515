#include "trainer/graphed_steps.h"

#include <torch/torch.h>

#include <utility>

#include "ddprun/process_group.h"
#include "rendezvous/base/error.h"
#include "trainer/ddp/group/lost_peer.h"

namespace ddprun::train {
namespace {

BatchShape shape_of(const Batch& batch) {
  BatchShape shape = batch.inputs.sizes().vec();
  shape.insert(shape.end(), batch.targets.sizes().begin(), batch.targets.sizes().end());
  return shape;
}

}  // namespace

GraphedSteps::GraphedSteps(std::unique_ptr<StepGraph> graph, TakesGraph& optimizer)
    : graph_(std::move(graph)), optimizer_(optimizer) {
  optimizer_.keep_numbers_on_device();
}

void GraphedSteps::record(const Batch& batch, const Step& step) try {
  batch_ = {batch.inputs.clone(), batch.targets.clone()};
  graph_->record([&] { loss_ = step(batch_); });
} catch (const std::exception& error) {
  if (is_loss_of_peer(error)) throw;
  throw Error("cannot record a step as a CUDA graph", reason(error), "Leave out --cuda-graph.");
}

at::Tensor GraphedSteps::take(const Batch& batch, const Step& step) {
  const bool ready = plan_.has_graph() || optimizer_.has_all_states();
  const StepWay way = plan_.next(shape_of(batch), ready);
  if (way == StepWay::eager) return step(batch);
  optimizer_.send_rates();  // not in the graph: the next step may have others
  if (way == StepWay::record) {
    record(batch, step);
  } else {
    batch_.inputs.copy_(batch.inputs, /*non_blocking=*/true);
    batch_.targets.copy_(batch.targets, /*non_blocking=*/true);
  }
  graph_->replay();
  return loss_.clone();
}

}  // namespace ddprun::train
