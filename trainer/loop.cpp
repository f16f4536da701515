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

// Says what the launcher asks after it.
Asked train_batch(Run& run, const at::Tensor& batch, std::int64_t steps) {
  const Split& split = run.data.train;
  run.ddp->zero_grad();
  const at::Tensor scores = run.ddp->forward(split.images.index_select(0, batch));
  const at::Tensor loss = torch::cross_entropy_loss(scores, split.labels.index_select(0, batch));
  loss.backward();
  run.optimizer->step();
  const std::int64_t samples = batch.size(0) * run.group.world_size();
  run.sampler->advance(batch.size(0));
  run.at.step += 1;
  run.at.samples_seen += samples;
  run.epoch.steps += 1;
  run.epoch.samples += samples;
  run.epoch.loss_sum += loss.detach() * batch.size(0);  // on its device: nothing is waited for
  const TimePoint now = Clock::now();
  if (run.progress.wants(run.epoch.steps, steps, now))
    run.progress.step({run.at.epochs_run + 1, run.epoch.steps, steps, loss.item<double>()}, now);
  return run.worker.step_done(static_cast<std::uint64_t>(run.at.step));
}

std::vector<at::Tensor> batches_left(const Run& run) {
  const auto indices = run.sampler->indices();
  if (indices.empty()) return {};
  return index_tensor(indices, run.device).split(run.options.batch_size);
}

// The rest of the epoch, from where the sampler is, unless the launcher asks for an end.
Asked train_epoch(Run& run) {
  run.worker.phase(Phase::training);
  run.model->train();
  run.sampler->set_epoch(run.at.epochs_run);
  const auto batches = batches_left(run);
  const std::int64_t steps = run.epoch.steps + static_cast<std::int64_t>(batches.size());
  for (const at::Tensor& batch : batches) {
    if (const Asked asked = train_batch(run, batch, steps); asked != Asked::nothing) return asked;
    const bool is_last = run.epoch.steps == steps;
    if (!is_last && run.options.save_steps > 0 && run.at.step % run.options.save_steps == 0) save_run(run);
  }
  run.at.epochs_run += 1;
  run.sampler->set_epoch(run.at.epochs_run);
  return Asked::nothing;
}

// How many of this rank's part of the test set the model gets right, on its device.
at::Tensor count_correct(Run& run) {
  constexpr std::int64_t kTestBatch = 1000;
  const torch::NoGradGuard no_grad;
  const Split& split = run.data.test;
  run.worker.phase(Phase::evaluating);
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

// Rank 0's answer is the one over all ranks; `seen` samples of theirs have passed since `began`.
EpochReport report_epoch(Run& run, std::int64_t seen, TimePoint began) {
  const at::Tensor correct = count_correct(run);
  const at::Tensor sums = torch::stack({run.epoch.loss_sum, correct});
  reduce(sums, 0, ReduceOp::sum, run.group);
  const std::chrono::duration<double> seconds = Clock::now() - began;
  run.worker.throughput(static_cast<double>(seen) / run.group.world_size() / seconds.count());
  return {.epoch = run.at.epochs_run,
          .epochs = run.options.total_epochs,
          .loss = sums[0].item<double>() / static_cast<double>(run.epoch.samples),
          .correct = static_cast<std::int64_t>(sums[1].item<double>()),
          .tested = run.data.test.size(),
          .samples_per_second = static_cast<double>(seen) / seconds.count()};
}

// No collective may follow where it is to leave without saving: its peers may be dead.
Ending leave(Run& run, Asked asked) {
  if (asked == Asked::to_leave) return Ending::left;
  run.worker.phase(Phase::saving);
  save_run(run);
  run.snapshots->finish();
  run.progress.line("saved at step " + std::to_string(run.at.step) + ", to go on from there later");
  return Ending::saved;
}

}  // namespace

Ending train(const Options& options, const RankEnv& env, at::Device device, Progress& progress) {
  Worker worker;
  Run run = begin_run(options, env, device, progress, worker);
  if (run.at.epochs_run >= options.total_epochs) {
    progress.line("nothing to do: " + options.snapshot + " has all of the " + std::to_string(options.total_epochs) +
                  " epochs. Ask for more of them, or begin anew with --fresh.");
    return Ending::done;
  }
  const TimePoint began = Clock::now();
  const Position from = run.at;
  EpochReport last;
  while (run.at.epochs_run < options.total_epochs) {
    const TimePoint epoch_began = Clock::now();
    const std::int64_t seen = run.at.samples_seen;
    const Asked asked = train_epoch(run);
    if (asked != Asked::nothing) return leave(run, asked);
    last = report_epoch(run, run.at.samples_seen - seen, epoch_began);
    progress.line(line_of(last));
    run.epoch = new_epoch(device);
    if (run.at.epochs_run % options.save_every == 0 || run.at.epochs_run == options.total_epochs) save_run(run);
  }
  worker.phase(Phase::finishing);
  run.snapshots->finish();  // no rank reports success before the last one is on disk
  progress.line(line_of(RunReport{.epochs = run.at.epochs_run,
                                  .correct = last.correct,
                                  .tested = last.tested,
                                  .samples = run.at.samples_seen - from.samples_seen,
                                  .time = Clock::now() - began}));
  return Ending::done;
}

}  // namespace ddprun
