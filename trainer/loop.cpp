#include "trainer/loop.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>

#include "rendezvous/error.h"
#include "trainer/dataset.h"
#include "trainer/ddp.h"
#include "trainer/sampler.h"
#include "trainer/snapshot.h"
#include "trainer/snapshot_file.h"

namespace ddprun {
namespace {

struct Accuracy {
  std::int64_t correct = 0, tested = 0;
};

// How far the run has come.
struct Position {
  std::int64_t epochs_run = 0, step = 0, samples_seen = 0;
};

struct Run {
  const Options& options;
  const RankEnv& env;
  at::Device device;
  Progress& progress;
  Dataset data;
  Group group;
  std::shared_ptr<Model> model;
  std::unique_ptr<torch::optim::SGD> optimizer;
  std::unique_ptr<Ddp> ddp;
  Position at;
  bool is_first() const { return env.rank == 0; }
};

// Rank 0 looks and every rank gets the same bytes: nobody can resume from another file, and only rank 0's disk needs to
// have it.
std::optional<Snapshot> find_resumable(const Run& run) {
  std::string bytes;
  const std::string& path = run.options.snapshot;
  if (run.is_first()) {
    check_writable(path);
    // --fresh means the job, not each of its rounds: a restarted worker goes on from what the first round wrote.
    if (run.options.fresh && run.env.round == 1 && retire_snapshots(path))
      run.progress.line("starting over: the snapshot of an earlier run is now " + path + ".old");
    const auto found = find_snapshot(
        path, [](const std::string& b, const std::string& name) { decode(b, name); },
        [](const std::string& sentence) { std::fprintf(stderr, "train: %s\n", sentence.c_str()); });
    if (found) bytes = found->bytes;
  }
  bytes = broadcast_bytes(run.group, std::move(bytes));
  return bytes.empty() ? std::nullopt : std::optional(decode(bytes, "the snapshot " + path));
}

void load_first_weights(Run& run) {
  const std::string& path = run.options.init;
  if (path.empty()) return;
  const std::string name = "the first weights in " + path;
  load_model_state(*run.model, decode_weights(read_whole_file(path, "the first weights in"), name), name);
}

void resume(Run& run, const Snapshot& snapshot) {
  const std::string name = "the snapshot " + run.options.snapshot;
  load_model_state(*run.model, snapshot.model_state, name);
  if (snapshot.optimizer_state) load_optimizer_state(*run.optimizer, *snapshot.optimizer_state, name);
  if (static_cast<int>(snapshot.rng.size()) == run.env.world_size)
    set_rng_state(snapshot.rng[static_cast<std::size_t>(run.env.rank)], run.device);
  run.at = {snapshot.epochs_run, snapshot.step, snapshot.samples_seen};
}

// A bucket order that does not fit the model would break the reducer; the model's state fitted, so only a foreign file
// has one.
BucketOrder usable_order(const Snapshot& snapshot, const Model& model) {
  std::vector<std::size_t> seen;
  for (const auto& bucket : snapshot.bucket_order) seen.insert(seen.end(), bucket.begin(), bucket.end());
  std::sort(seen.begin(), seen.end());
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i] != i) return {};
  return seen.size() == model.parameters().size() ? snapshot.bucket_order : BucketOrder{};
}

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
    run.optimizer->zero_grad();
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

// Rank 0's answer is the one over all ranks.
EpochReport report_epoch(Run& run, const at::Tensor& loss_sum, TimePoint began) {
  const at::Tensor correct = count_correct(run);
  const auto samples_before = run.data.train.size();
  const at::Tensor sums = sum_to_first(run.group, torch::stack({loss_sum, correct})).cpu();
  const auto samples = (samples_before + run.env.world_size - 1) / run.env.world_size * run.env.world_size;
  const std::chrono::duration<double> seconds = Clock::now() - began;
  return {.epoch = run.at.epochs_run,
          .epochs = run.options.total_epochs,
          .loss = sums[0].item<double>() / static_cast<double>(samples),
          .correct = static_cast<std::int64_t>(sums[1].item<double>()),
          .tested = run.data.test.size(),
          .samples_per_second = static_cast<double>(samples) / seconds.count()};
}

std::vector<RngState> gather_rng(const Run& run) {
  const RngState own = rng_state(run.device);
  const auto cpu = gather_to_first(run.group, own.cpu);
  const auto cuda = own.cuda.defined() ? gather_to_first(run.group, own.cuda) : std::vector<at::Tensor>(cpu.size());
  std::vector<RngState> result;
  for (std::size_t rank = 0; rank < cpu.size(); ++rank) result.push_back({cpu[rank], cuda[rank]});
  return result;
}

void save(Run& run) {
  Snapshot snapshot;
  snapshot.rng = gather_rng(run);
  snapshot.bucket_order = run.ddp->bucket_order();  // may talk to the other ranks: all of them ask
  if (!run.is_first()) return;
  snapshot.model_state = model_state(*run.model);
  snapshot.optimizer_state = optimizer_state(*run.optimizer);
  snapshot.epochs_run = run.at.epochs_run;
  snapshot.step = run.at.step;
  snapshot.samples_seen = run.at.samples_seen;
  snapshot.world_size = run.env.world_size;
  snapshot.round = run.env.round;
  write_snapshot(run.options.snapshot, encode(snapshot));
}

Run begin(const Options& options, const RankEnv& env, at::Device device, Progress& progress) {
  Run run{options,
          env,
          device,
          progress,
          load_dataset(find_data_folder(options.dataset, options.data), device),
          join_group(env, device),
          {},
          {},
          {},
          {}};
  torch::manual_seed(options.seed);
  at::globalContext().setDeterministicCuDNN(true);  // runs that begin alike end alike
  const auto size = run.data.train.images.sizes();
  run.model = make_model(options.model, {size[1], size[2], size[3], run.data.classes});
  run.model->to(device);
  run.optimizer = std::make_unique<torch::optim::SGD>(run.model->parameters(),
                                                      torch::optim::SGDOptions(options.lr).momentum(options.momentum));
  BucketOrder order;
  if (const auto snapshot = find_resumable(run)) {
    resume(run, *snapshot);
    order = usable_order(*snapshot, *run.model);
    progress.line("resuming from " + options.snapshot + ": " + std::to_string(run.at.epochs_run) + " of " +
                  std::to_string(options.total_epochs) + " epochs done");
  } else {
    load_first_weights(run);
  }
  run.ddp = std::make_unique<Ddp>(run.model, run.group, order);
  return run;
}

}  // namespace

void train(const Options& options, const RankEnv& env, at::Device device, Progress& progress) {
  Run run = begin(options, env, device, progress);
  if (run.at.epochs_run >= options.total_epochs)
    return progress.line("nothing to do: " + options.snapshot + " has all of the " +
                         std::to_string(options.total_epochs) +
                         " epochs. Ask for more of them, or begin anew with --fresh.");
  const TimePoint began = Clock::now();
  const Position from = run.at;
  EpochReport last;
  while (run.at.epochs_run < options.total_epochs) {
    const TimePoint epoch_began = Clock::now();
    const at::Tensor loss_sum = train_epoch(run);
    last = report_epoch(run, loss_sum, epoch_began);
    progress.line(line_of(last));
    if (run.at.epochs_run % options.save_every == 0 || run.at.epochs_run == options.total_epochs) save(run);
  }
  broadcast_bytes(run.group, "saved");  // no rank reports success before rank 0 has the last snapshot on disk
  progress.line(line_of(RunReport{.epochs = run.at.epochs_run,
                                  .correct = last.correct,
                                  .tested = last.tested,
                                  .samples = run.at.samples_seen - from.samples_seen,
                                  .time = Clock::now() - began}));
}

}  // namespace ddprun
