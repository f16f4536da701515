#include "trainer/loop/step.h"

#include <torch/torch.h>

#include <algorithm>
#include <thread>

#include "ddprun/clip_grad.h"
#include "rendezvous/channel/beat_scope.h"
#include "trainer/data/split.h"
#include "trainer/models/channels_last.h"

namespace ddprun::train {
namespace {

at::Tensor loss_of_pass(Run& run, const Batch& batch) {
  const at::Tensor inputs = model_inputs(run, batch);
  const auto autocast = autocast_of(run);
  return loss_of(run.data.task, run.ddp->forward(inputs), batch.targets);
}

void clip(const Run& run) {
  const TrainingOptions& o = run.options.training;
  if (o.clip_norm > 0) clip_grad_norm(run.model->parameters(), o.clip_norm);
  if (o.clip_value > 0) clip_grad_value(run.model->parameters(), o.clip_value);
}

void update_weights(Run& run) {
  if (!run.scaler) {
    clip(run);
    run.optimizer->step();
    return;
  }
  const TrainingOptions& o = run.options.training;
  if (o.clip_norm > 0 || o.clip_value > 0) run.scaler->unscale(*run.optimizer);
  clip(run);
  run.scaler->step(*run.optimizer);
  run.scaler->update();
}

void end_step(Run& run, const StepDone& done) {
  run.sampler->advance(done.samples);
  if (run.options.schedule.unit == "step") step_schedule(run);
}

at::Tensor scaled(Run& run, const at::Tensor& loss) { return run.scaler ? run.scaler->scale(loss) : loss; }

// What a graph records: nothing in it waits for the device.
at::Tensor loss_of_step(Run& run, const Batch& batch) {
  const at::Tensor loss = loss_of_pass(run, batch);
  scaled(run, loss).backward();
  update_weights(run);
  run.epoch.loss_sum += loss.detach() * batch.inputs.size(0);
  return loss.detach();
}

StepDone step_by_graph(Run& run, EpochBatches& batches) {
  const auto step = [&run](const Batch& one) { return loss_of_step(run, one); };
  StepDone done;
  hold_back_for_memory(run);
  run.ddp->zero_grad();
  if (batches.are_placed()) {
    PlacedBatch placed = batches.next_place();
    placed.order_max = samples_per_epoch(run);
    batches.skip();
    const auto gather = [&run](const at::Tensor& indices) { return run.data.train.batch(indices, run.at.epochs_run); };
    done.loss = run.graphed->take(placed, gather, step);
  } else {
    done.loss = run.graphed->take(batches.next(), step);
  }
  done.samples = batches.samples();
  end_step(run, done);
  return done;
}

}  // namespace

std::optional<Autocast> autocast_of(const Run& run) {
  const auto type = half_type(run.options.training.precision);
  return type ? std::optional<Autocast>(std::in_place, run.device.type(), *type) : std::nullopt;
}

at::Tensor loss_of(Task task, const at::Tensor& scores, const at::Tensor& targets) {
  if (task == Task::regress) return torch::mse_loss(scores, targets);
  if (task == Task::predict_next) return torch::cross_entropy_loss(scores.flatten(0, 1), targets.flatten());
  return torch::cross_entropy_loss(scores, targets);
}

at::Tensor model_inputs(const Run& run, const Batch& batch) {
  return run.options.training.channels_last ? to_channels_last(batch.inputs) : batch.inputs;
}

EpochBatches::EpochBatches(const Run& run)
    : EpochBatches(run, run.data.train, run.sampler->indices(), run.options.data.batch_size, run.at.epochs_run) {}

EpochBatches::EpochBatches(const Run& run, const Split& split, const std::vector<std::int64_t>& indices,
                           std::int64_t size, std::int64_t epoch)
    : split_(split), epoch_(epoch), size_(size) {
  left_ = (static_cast<std::int64_t>(indices.size()) + size - 1) / size;
  if (indices.empty()) return;
  const auto threads = loader_threads(split, run.device, run.options.data.workers,
                                      std::thread::hardware_concurrency() / run.group.local_world_size());
  if (!threads) {
    order_ = torch::tensor(indices, torch::kLong).to(split.index_device());
    return;
  }
  loader_ =
      make_loader(split, {.batch_size = size, .threads = *threads, .thread_begins = [] { torch::set_num_threads(1); }},
                  run.device.is_cuda());
  prefetched_ = loader_->epoch(indices, epoch);
}

Batch EpochBatches::next() {
  const LoadScope load;
  --left_;
  if (prefetched_) {
    const Batch batch = *prefetched_->next();
    samples_ = prefetched_->samples();
    return split_.deliver(batch);
  }
  const PlacedBatch placed = next_place();
  samples_ = placed.size;
  at_ += placed.size;
  return split_.batch(order_.slice(0, placed.first, at_), epoch_);
}

PlacedBatch EpochBatches::next_place() const {
  return {.order = order_, .first = at_, .size = std::min(size_, order_.numel() - at_)};
}

void EpochBatches::skip() {
  --left_;
  samples_ = next_place().size;
  at_ += samples_;
}

StepDone train_step(Run& run, EpochBatches& batches) {
  if (run.graphed) return step_by_graph(run, batches);
  const std::int64_t passes = std::min(run.options.training.accumulate, batches.left());
  StepDone done;
  at::Tensor losses;
  run.ddp->zero_grad();
  for (std::int64_t pass = 1; pass <= passes; ++pass) {
    const Batch batch = batches.next();
    const auto pause = run.ddp->no_sync(pass < passes);
    at::Tensor loss = loss_of_pass(run, batch);
    const at::Tensor sum = loss.detach() * batches.samples();
    done.loss_sum = pass == 1 ? sum : done.loss_sum + sum;
    if (passes > 1) loss = loss / passes;
    hold_back_for_memory(run);
    scaled(run, loss).backward();
    losses = pass == 1 ? loss.detach() : losses + loss.detach();
    done.samples += batches.samples();
  }
  done.taken = !run.guard || run.guard->admits(losses, run.at.step + 1);
  if (done.taken) update_weights(run);
  end_step(run, done);
  done.loss = std::move(losses);
  return done;
}

}  // namespace ddprun::train
