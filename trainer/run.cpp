#include "trainer/run.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "ddprun/collectives.h"
#include "rendezvous/error.h"
#include "trainer/ddp/broadcast_bytes.h"
#include "trainer/ddp/snapshot.h"
#include "trainer/ddp/snapshot_file.h"

namespace ddprun {
namespace {

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
  bytes = broadcast_bytes(run.group.c10d(), std::move(bytes));
  return bytes.empty() ? std::nullopt : std::optional(decode(bytes, "the snapshot " + path));
}

void load_first_weights(Run& run) {
  const std::string& path = run.options.init;
  if (path.empty() || !run.is_first()) return;  // DDP gives them to the others
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

std::vector<RngState> gather_rng(const Run& run) {
  const RngState own = rng_state(run.device);
  const auto cpu = gather(own.cpu, 0, run.group);
  const auto cuda = own.cuda.defined() ? gather(own.cuda, 0, run.group) : std::vector<at::Tensor>(cpu.size());
  std::vector<RngState> result;
  for (std::size_t rank = 0; rank < cpu.size(); ++rank) result.push_back({cpu[rank], cuda[rank]});
  return result;
}

}  // namespace

Run begin_run(const Options& options, const RankEnv& env, at::Device device, Progress& progress) {
  Run run{options,
          env,
          device,
          progress,
          load_dataset(find_data_folder(options.dataset, options.data), device),
          init_process_group({.backend = device.is_cuda() ? Backend::nccl : Backend::gloo}),
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
    if (run.at.epochs_run < options.total_epochs)
      progress.line("resuming from " + options.snapshot + ": " + std::to_string(run.at.epochs_run) + " of " +
                    std::to_string(options.total_epochs) + " epochs done");
  } else {
    load_first_weights(run);
  }
  const DdpOptions ddp{.broadcast_buffers = run.model->training_reads_buffers(), .bucket_order = order};
  run.ddp = std::make_unique<DistributedDataParallel<Model>>(run.model, ddp, run.group);
  return run;
}

void save_run(Run& run) {
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

}  // namespace ddprun
