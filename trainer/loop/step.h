// One step of training: passes, gradients, the optimizer; and the loss of each task.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "trainer/loop/run.h"

namespace ddprun::train {

// The loss of the model's scores: one number, the mean over all targets.
at::Tensor loss_of(Task task, const at::Tensor& scores, const at::Tensor& targets);

// The batch's inputs in the memory format of the run.
at::Tensor model_inputs(const Run& run, const Batch& batch);

// Of --precision, for a forward pass and its loss in training and in evaluation; empty: float.
std::optional<Autocast> autocast_of(const Run& run);

// The batches of one rank's samples, in their order: prefetched by threads, or taken from the device.
class EpochBatches {
 public:
  // The rest of the run's epoch, in the sampler's order.
  explicit EpochBatches(const Run& run);
  // Of these samples of `split`, `size` in each but the last one. `epoch` as in Split::batch().
  EpochBatches(const Run& run, const Split& split, const std::vector<std::int64_t>& indices, std::int64_t size,
               std::int64_t epoch);
  std::int64_t left() const { return left_; }  // batches
  Batch next();
  std::int64_t samples() const { return samples_; }  // of the last one

  // Whether each is a gather of an order that is where the data is.
  bool are_placed() const { return !loader_ && order_.defined(); }
  PlacedBatch next_place() const;
  void skip();  // the next one: it is taken by its place

 private:
  const Split split_;
  const std::int64_t epoch_;
  std::int64_t left_ = 0, samples_ = 0;
  const std::int64_t size_;
  at::Tensor order_ = {};
  std::int64_t at_ = 0;  // of the next one in the order
  std::optional<BatchLoader> loader_ = {};
  std::optional<Batches<Batch>> prefetched_ = {};
};

struct StepDone {
  std::int64_t samples = 0;  // of this rank
  at::Tensor loss;           // the mean over the passes, on the device, without its graph
  at::Tensor loss_sum;       // over the samples; undefined: the step has added it to the epoch's
  bool taken = true;         // false: some rank's loss was not finite, and the weights are unchanged
};

// Takes a batch for each pass. A collective. Every rank must have the same number left.
StepDone train_step(Run& run, EpochBatches& batches);

}  // namespace ddprun::train
