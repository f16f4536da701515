#include "trainer/run.h"

#include <torch/torch.h>

#include <cstdio>
#include <optional>

#include "ddprun/collectives.h"
#include "ddprun/weights.h"

namespace ddprun {
namespace {

TrainingState state_of(Run& run) {
  return {.model = *run.model, .optimizer = run.optimizer.get(), .sampler = run.sampler.get()};
}

SnapshotOptions snapshot_options(const Run& run) {
  return {.path = run.options.snapshot,
          .keep_last = run.options.keep,
          .fresh = run.options.fresh,
          .say = [](const std::string& sentence) { std::fprintf(stderr, "train: %s\n", sentence.c_str()); }};
}

void load_first_weights(Run& run) {
  const std::string& path = run.options.init;
  if (path.empty() || run.group.rank() != 0) return;  // DDP gives them to the others
  load_weights(*run.model, path);
}

std::string percent_of(const Run& run) {
  return std::to_string(100 * run.epoch.samples / (run.epoch.samples + run.sampler->size() * run.group.world_size()));
}

// 3 of 10 epochs done, and 40 % of the next
std::string how_far(const Run& run) {
  return std::to_string(run.at.epochs_run) + " of " + std::to_string(run.options.total_epochs) + " epochs done" +
         (run.epoch.steps > 0 ? ", and " + percent_of(run) + " % of the next" : "");
}

void go_on_from(Run& run, const Resumed& resumed) {
  run.at = resumed.at;
  if (resumed.extra.is_object() && resumed.extra.contains("epoch_steps")) {
    run.epoch.steps = resumed.extra["epoch_steps"];
    run.epoch.samples = resumed.extra["epoch_samples"];
    if (run.group.rank() == 0) run.epoch.loss_sum += resumed.extra["loss_sum"].get<double>();
  }
  if (run.at.epochs_run < run.options.total_epochs)
    run.progress.line("resuming from " + resumed.path + ": " + how_far(run));
}

ProcessGroup meet(Worker& worker, at::Device device) {
  worker.phase(Phase::meeting);
  return init_process_group({.backend = device.is_cuda() ? Backend::nccl : Backend::gloo});
}

}  // namespace

EpochSoFar new_epoch(at::Device device) {
  return {.loss_sum = torch::zeros({}, torch::device(device).dtype(torch::kDouble))};
}

Run begin_run(const Options& options, const RankEnv& env, at::Device device, Progress& progress, Worker& worker) {
  worker.phase(Phase::loading);
  Run run{.options = options,
          .env = env,
          .device = device,
          .progress = progress,
          .worker = worker,
          .data = load_dataset(find_data_folder(options.dataset, options.data), device),
          .group = meet(worker, device)};
  torch::manual_seed(options.seed);
  at::globalContext().setDeterministicCuDNN(true);  // runs that begin alike end alike
  const auto size = run.data.train.images.sizes();
  run.model = make_model(
      {.name = options.model, .channels = size[1], .height = size[2], .width = size[3], .classes = run.data.classes});
  run.model->to(device);
  run.optimizer = std::make_unique<torch::optim::SGD>(run.model->parameters(),
                                                      torch::optim::SGDOptions(options.lr).momentum(options.momentum));
  run.sampler = std::make_unique<DistributedSampler>(Sampling{.dataset_size = run.data.train.size(),
                                                              .rank = run.group.rank(),
                                                              .world_size = run.group.world_size(),
                                                              .seed = options.seed});
  run.epoch = new_epoch(device);
  run.snapshots = std::make_unique<Snapshots>(snapshot_options(run), run.group);
  const auto resumed = run.snapshots->resume(state_of(run));
  if (resumed)
    go_on_from(run, *resumed);
  else
    load_first_weights(run);
  const DdpOptions ddp{.broadcast_buffers = run.model->training_reads_buffers(),
                       .bucket_order = resumed ? resumed->bucket_order : BucketOrder{}};
  run.ddp = std::make_unique<DistributedDataParallel<Model>>(run.model, ddp, run.group);
  return run;
}

void save_run(Run& run) {
  SaveRequest request{.at = run.at, .bucket_order = run.ddp->bucket_order()};
  if (run.epoch.steps > 0) {
    const at::Tensor loss_sum = run.epoch.loss_sum.clone();
    all_reduce(loss_sum, ReduceOp::sum, run.group);
    request.extra = {
        {"epoch_steps", run.epoch.steps}, {"epoch_samples", run.epoch.samples}, {"loss_sum", loss_sum.item<double>()}};
  }
  run.snapshots->save(state_of(run), request);
}

}  // namespace ddprun
