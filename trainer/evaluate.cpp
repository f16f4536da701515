#include "trainer/evaluate.h"

#include <torch/torch.h>

#include <cmath>

#include "ddprun/collectives.h"
#include "rendezvous/base/error.h"
#include "trainer/ddp/collectives/all_or_none.h"
#include "trainer/ddp/snapshot/replace_file.h"
#include "trainer/step.h"

namespace ddprun::train {
namespace {

// Samples of one pass: enough to keep the machine busy, few enough for the memory of a large model.
constexpr std::int64_t kSmallBatch = 1000, kLargeBatch = 100, kSmallSample = 1024;

struct Seen {
  at::Tensor correct, loss_sum, observed;             // one number each, on the run's device
  std::vector<at::Tensor> targets, predictions = {};  // if requested
};

std::int64_t batch_size_of(const Dataset& data) {
  const bool small = data.task != Task::classify || data.channels * data.height * data.width <= kSmallSample;
  return small && data.task != Task::predict_next ? kSmallBatch : kLargeBatch;
}

void look_at(const Run& run, const Batch& batch, bool keep, Seen& seen) {
  const at::Tensor scores = run.model->forward(batch.inputs);
  const auto count = static_cast<double>(batch.targets.numel());
  seen.loss_sum += loss_of(run.data.task, scores, batch.targets).to(torch::kDouble) * count;
  seen.observed += count;
  const bool guesses = run.data.task != Task::regress;
  const at::Tensor predicted = guesses ? scores.argmax(-1) : scores;
  if (guesses) seen.correct += predicted.eq(batch.targets).sum();
  if (!keep) return;
  seen.targets.push_back(batch.targets);
  seen.predictions.push_back(predicted);
}

Seen see_my_part(Run& run, bool keep) {
  const torch::NoGradGuard no_grad;
  run.worker.phase(Phase::evaluating);
  run.ddp->broadcast_buffers();
  run.model->eval();
  const auto zero = [&] { return torch::zeros({}, torch::device(run.device).dtype(torch::kDouble)); };
  Seen seen{.correct = zero(), .loss_sum = zero(), .observed = zero(), .targets = {}};
  const auto indices = evaluation_indices(run.data.test.size(), run.group.rank(), run.group.world_size());
  if (indices.empty()) return seen;
  for (const at::Tensor& batch : torch::tensor(indices, torch::kLong).to(run.device).split(batch_size_of(run.data)))
    look_at(run, run.data.test.batch(batch, run.at.epochs_run), keep, seen);
  return seen;
}

std::string number(const at::Tensor& value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value.item<double>());
  return text;
}

// Rank i % world_size evaluated sample i of the test set, as its (i / world_size)-th.
std::string lines_of(const std::vector<at::Tensor>& targets, const std::vector<at::Tensor>& predictions) {
  const std::size_t ranks = targets.size();
  std::int64_t samples = 0;
  for (const at::Tensor& part : targets) samples += part.size(0);
  std::string text = "sample,target,prediction\n";
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto rank = static_cast<std::size_t>(i) % ranks;
    const std::int64_t at = i / static_cast<std::int64_t>(ranks);
    text += std::to_string(i) + "," + number(targets[rank][at]) + "," + number(predictions[rank][at]) + "\n";
  }
  return text;
}

void write_all_predictions(Run& run, const Seen& seen) {
  const bool numbers = run.data.task == Task::regress;
  const auto type = torch::dtype(numbers ? torch::kFloat : torch::kLong);
  const auto whole = [&](const std::vector<at::Tensor>& parts) {
    const at::Tensor own = parts.empty() ? torch::empty({0}, type) : torch::cat(parts).flatten().cpu();
    std::vector<at::Tensor> all = gather(own.to(run.device), 0, run.group);
    for (at::Tensor& one : all) one = one.cpu();
    return all;
  };
  const auto targets = whole(seen.targets), predictions = whole(seen.predictions);
  all_or_none(run.group, [&] {
    if (run.group.rank() == 0)
      replace_file(run.options.evaluation.predictions, {lines_of(targets, predictions)}, "the predictions");
  });
}

}  // namespace

Evaluation evaluate(Run& run, bool write_predictions) {
  const Seen seen = see_my_part(run, write_predictions);
  const at::Tensor sums = torch::stack({run.epoch.loss_sum, seen.correct, seen.loss_sum, seen.observed});
  all_reduce(sums, ReduceOp::sum, run.group);
  if (write_predictions) write_all_predictions(run, seen);
  const at::Tensor numbers = sums.cpu();
  const auto at = [&](std::int64_t i) { return numbers[i].item<double>(); };
  return {.train_loss = run.epoch.steps > 0 ? run.epoch.loss_of(at(0)) : std::nan(""),
          .loss = at(2) / std::max(at(3), 1.0),
          .correct = static_cast<std::int64_t>(at(1)),
          .observed = static_cast<std::int64_t>(at(3))};
}

}  // namespace ddprun::train
