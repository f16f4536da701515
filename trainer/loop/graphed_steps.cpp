#include "trainer/loop/graphed_steps.h"

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

StepWay GraphedSteps::next_way(const BatchShape& shape) {
  const bool ready = plan_.has_graph() || optimizer_.has_all_states();
  const StepWay way = plan_.next(shape, ready);
  if (way != StepWay::eager) optimizer_.send_rates();  // not in the graph: the next step may have others
  return way;
}

void GraphedSteps::record(const std::function<void()>& step) try {
  graph_->record(step);
} catch (const std::exception& error) {
  if (is_loss_of_peer(error)) throw;
  throw Error("cannot record a step as a CUDA graph", reason(error), "Leave out --cuda-graph.");
}

at::Tensor GraphedSteps::take(const Batch& batch, const Step& step) {
  const StepWay way = next_way(shape_of(batch));
  if (way == StepWay::eager) return step(batch);
  if (way == StepWay::record) {
    batch_ = {batch.inputs.clone(), batch.targets.clone()};
    record([this, step] { loss_ = step(batch_); });
  } else {
    batch_.inputs.copy_(batch.inputs, /*non_blocking=*/true);
    batch_.targets.copy_(batch.targets, /*non_blocking=*/true);
  }
  graph_->replay();
  return loss_;
}

// What an eager step or a new epoch has changed.
void GraphedSteps::find_place(const PlacedBatch& placed) {
  if (!given_order_.is_same(placed.order)) {
    given_order_ = placed.order;
    order_.slice(0, 0, placed.order.numel()).copy_(placed.order);
  }
  if (next_place_ != placed.first) place_.fill_(placed.first);
  next_place_ = placed.first + placed.size;
}

at::Tensor GraphedSteps::take(const PlacedBatch& placed, const Gather& gather, const Step& step) {
  const StepWay way = next_way({placed.size});
  if (way == StepWay::eager) return step(gather(placed.order.slice(0, placed.first, placed.first + placed.size)));
  if (way == StepWay::record) {
    check(placed.order.numel() <= placed.order_max, "an epoch's order is no longer than was said");
    order_ = torch::zeros({placed.order_max}, placed.order.options());
    place_ = torch::zeros({1}, placed.order.options());
    offsets_ = torch::arange(placed.size, placed.order.options());
  }
  find_place(placed);
  if (way == StepWay::record)
    record([this, gather, step, size = placed.size] {
      loss_ = step(gather(order_.index_select(0, place_ + offsets_)));
      place_ += size;
    });
  graph_->replay();
  return loss_;
}

}  // namespace ddprun::train
