#include "trainer/loop/evaluate.h"

#include <torch/torch.h>

#include <cmath>

#include "ddprun/collectives.h"
#include "rendezvous/base/error.h"
#include "trainer/ddp/collectives/all_or_none.h"
#include "trainer/ddp/snapshot/replace_file.h"
#include "trainer/loop/step.h"

namespace ddprun::train {
namespace {

// Samples of one pass: enough to keep the machine busy, few enough for the memory of a large model.
constexpr std::int64_t kSmallBatch = 1000, kLargeBatch = 100, kSmallSample = 1024;

struct Totals {
  at::Tensor correct, loss_sum, observed;             // one number each, on the run's device
  std::vector<at::Tensor> targets, predictions = {};  // if requested
};

std::int64_t batch_size_of(const Dataset& data) {
  const bool small = data.task != Task::classify || data.channels * data.height * data.width <= kSmallSample;
  return small && data.task != Task::predict_next ? kSmallBatch : kLargeBatch;
}

void add_batch(const Run& run, const Batch& batch, bool keep, Totals& totals) {
  const auto autocast = autocast_of(run);
  const at::Tensor scores = run.model->forward(model_inputs(run, batch));
  const auto count = static_cast<double>(batch.targets.numel());
  totals.loss_sum += loss_of(run.data.task, scores, batch.targets).to(torch::kDouble) * count;
  totals.observed += count;
  const bool classifies = run.data.task != Task::regress;
  const at::Tensor predicted = classifies ? scores.argmax(-1) : scores.to(torch::kFloat);
  if (classifies) totals.correct += predicted.eq(batch.targets).sum();
  if (!keep) return;
  totals.targets.push_back(batch.targets);
  totals.predictions.push_back(predicted);
}

// Of the rank that has most: all of them pass as many points at which they may stop.
std::int64_t batches_of_a_rank(const Run& run) {
  const auto parts = [](std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; };
  return parts(parts(run.data.test.size(), run.group.world_size()), batch_size_of(run.data));
}

std::optional<Totals> evaluate_own_part(Run& run, std::int64_t epoch, bool keep, const std::function<bool()>& stops) {
  const torch::NoGradGuard no_grad;
  run.worker.phase(Phase::evaluating);
  if (!run.options.model.no_broadcast_buffers) run.ddp->broadcast_buffers();
  run.model->eval();
  const auto zero = [&] { return torch::zeros({}, torch::device(run.device).dtype(torch::kDouble)); };
  Totals totals{.correct = zero(), .loss_sum = zero(), .observed = zero(), .targets = {}};
  const auto indices = evaluation_indices(run.data.test.size(), run.group.rank(), run.group.world_size());
  EpochBatches batches(run, run.data.test, indices, batch_size_of(run.data), epoch);
  for (std::int64_t i = 0; i < batches_of_a_rank(run); ++i) {
    if (batches.left() > 0) add_batch(run, batches.next(), keep, totals);
    if (stops()) return {};
  }
  return totals;
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

void write_all_predictions(Run& run, const Totals& totals) {
  const bool numbers = run.data.task == Task::regress;
  const auto type = torch::dtype(numbers ? torch::kFloat : torch::kLong);
  const auto whole = [&](const std::vector<at::Tensor>& parts) {
    const at::Tensor own = parts.empty() ? torch::empty({0}, type) : torch::cat(parts).flatten().cpu();
    std::vector<at::Tensor> all = gather(own.to(run.device), 0, run.group);
    for (at::Tensor& one : all) one = one.cpu();
    return all;
  };
  const auto targets = whole(totals.targets), predictions = whole(totals.predictions);
  all_or_none(run.group, [&] {
    if (run.group.rank() == 0)
      replace_file(run.options.evaluation.predictions, {lines_of(targets, predictions)}, "the predictions");
  });
}

std::vector<RankPart> parts_of_ranks(const Run& run, const Totals& totals) {
  const at::Tensor all = all_gather_stacked(torch::stack({totals.correct, totals.observed}), run.group).cpu();
  std::vector<RankPart> parts;
  for (std::int64_t rank = 0; rank < all.size(0); ++rank)
    parts.push_back({static_cast<std::int64_t>(all[rank][0].item<double>()),
                     static_cast<std::int64_t>(all[rank][1].item<double>())});
  return parts;
}

}  // namespace

std::optional<Evaluation> evaluate(Run& run, std::int64_t epoch, bool write_predictions,
                                   const std::function<bool()>& stops) {
  const std::optional<Totals> totals = evaluate_own_part(run, epoch, write_predictions, stops);
  if (!totals) return {};
  const at::Tensor sums = torch::stack({run.epoch.loss_sum, totals->correct, totals->loss_sum, totals->observed});
  all_reduce(sums, ReduceOp::sum, run.group);
  if (write_predictions) write_all_predictions(run, *totals);
  const at::Tensor numbers = sums.cpu();
  const auto at = [&](std::int64_t i) { return numbers[i].item<double>(); };
  return Evaluation{.train_loss = run.epoch.steps > 0 ? run.epoch.loss_of(at(0)) : std::nan(""),
                    .loss = at(2) / std::max(at(3), 1.0),
                    .correct = static_cast<std::int64_t>(at(1)),
                    .observed = static_cast<std::int64_t>(at(3)),
                    .parts = run.wanted.verbose ? parts_of_ranks(run, *totals) : std::vector<RankPart>()};
}

}  // namespace ddprun::train
