#include "trainer/loop.h"

#include <torch/torch.h>

#include "ddprun/collectives.h"
#include "ddprun/sampler.h"
#include "trainer/run.h"

namespace ddprun {
namespace {

at::Tensor index_tensor(const std::vector<std::int64_t>& indices, at::Device device) {
  return torch::tensor(indices, torch::kLong).to(device);
}

// Returns the sum of the losses over this rank's samples, on its device: nothing is waited for.
at::Tensor train_epoch(Run& run) {
  const Split& split = run.data.train;
  const auto indices = epoch_indices(
      {.dataset_size = split.size(), .rank = run.env.rank, .world_size = run.env.world_size, .seed = run.options.seed},
      run.at.epochs_run);
  const auto batches = index_tensor(indices, run.device).split(run.options.batch_size);
  const auto steps = static_cast<std::int64_t>(batches.size());
  at::Tensor loss_sum = torch::zeros({}, torch::device(run.device).dtype(torch::kDouble));
  run.model->train();
  for (std::int64_t step = 1; step <= steps; ++step) {
    const at::Tensor& batch = batches[static_cast<std::size_t>(step - 1)];
    run.ddp->zero_grad();
    const at::Tensor scores = run.ddp->forward(split.images.index_select(0, batch));
    const at::Tensor loss = torch::cross_entropy_loss(scores, split.labels.index_select(0, batch));
    loss.backward();
    run.optimizer->step();
    loss_sum += loss.detach() * batch.size(0);
    const TimePoint now = Clock::now();
    if (run.progress.wants(step, steps, now))
      run.progress.step({run.at.epochs_run + 1, step, steps, loss.item<double>()}, now);
  }
  run.at.step += steps;
  run.at.samples_seen += static_cast<std::int64_t>(indices.size()) * run.env.world_size;
  run.at.epochs_run += 1;
  return loss_sum;
}

// How many of this rank's part of the test set the model gets right, on its device.
at::Tensor count_correct(Run& run) {
  constexpr std::int64_t kTestBatch = 1000;
  const torch::NoGradGuard no_grad;
  const Split& split = run.data.test;
  run.ddp->broadcast_buffers();
  run.model->eval();
  at::Tensor correct = torch::zeros({}, torch::device(run.device).dtype(torch::kDouble));
  const auto indices = evaluation_indices(split.size(), run.env.rank, run.env.world_size);
  if (indices.empty()) return correct;
  for (const at::Tensor& batch : index_tensor(indices, run.device).split(kTestBatch)) {
    const at::Tensor guesses = run.model->forward(split.images.index_select(0, batch)).argmax(1);
    correct += guesses.eq(split.labels.index_select(0, batch)).sum();
  }
  return correct;
}

// Rank 0's answer is the one over all ranks; `samples` are theirs, too.
EpochReport report_epoch(Run& run, const at::Tensor& loss_sum, std::int64_t samples, TimePoint began) {
  const at::Tensor correct = count_correct(run);
  const at::Tensor sums = torch::stack({loss_sum, correct});
  reduce(sums, 0, ReduceOp::sum, run.group);
  const std::chrono::duration<double> seconds = Clock::now() - began;
  return {.epoch = run.at.epochs_run,
          .epochs = run.options.total_epochs,
          .loss = sums[0].item<double>() / static_cast<double>(samples),
          .correct = static_cast<std::int64_t>(sums[1].item<double>()),
          .tested = run.data.test.size(),
          .samples_per_second = static_cast<double>(samples) / seconds.count()};
}

}  // namespace

void train(const Options& options, const RankEnv& env, at::Device device, Progress& progress) {
  Run run = begin_run(options, env, device, progress);
  if (run.at.epochs_run >= options.total_epochs)
    return progress.line("nothing to do: " + options.snapshot + " has all of the " +
                         std::to_string(options.total_epochs) +
                         " epochs. Ask for more of them, or begin anew with --fresh.");
  const TimePoint began = Clock::now();
  const Position from = run.at;
  EpochReport last;
  while (run.at.epochs_run < options.total_epochs) {
    const TimePoint epoch_began = Clock::now();
    const std::int64_t seen = run.at.samples_seen;
    const at::Tensor loss_sum = train_epoch(run);
    last = report_epoch(run, loss_sum, run.at.samples_seen - seen, epoch_began);
    progress.line(line_of(last));
    if (run.at.epochs_run % options.save_every == 0 || run.at.epochs_run == options.total_epochs) save_run(run);
  }
  barrier(run.group);  // no rank reports success before rank 0 has the last snapshot on disk
  progress.line(line_of(RunReport{.epochs = run.at.epochs_run,
                                  .correct = last.correct,
                                  .tested = last.tested,
                                  .samples = run.at.samples_seen - from.samples_seen,
                                  .time = Clock::now() - began}));
}

}  // namespace ddprun
