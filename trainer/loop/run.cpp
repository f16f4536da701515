#include "trainer/loop/run.h"

#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "ddprun/collectives.h"
#include "ddprun/deterministic.h"
#include "ddprun/optimizers.h"
#include "ddprun/set_lr.h"
#include "ddprun/sync_batch_norm.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/print_line.h"
#include "trainer/ddp/collectives/all_or_none.h"
#include "trainer/ddp/group/gpu.h"
#include "trainer/ddp/snapshot/files.h"
#include "trainer/loop/rate.h"
#include "trainer/loop/result_file.h"
#include "trainer/loop/run_snapshot.h"
#include "trainer/loop/snapshot_extra.h"
#include "trainer/loop/transfer.h"
#include "trainer/machine/kernel_choice.h"
#include "trainer/models/channels_last.h"

namespace ddprun::train {
namespace {

TrainingState state_of(Run& run) {
  return {.model = *run.model,
          .optimizer = run.optimizer.get(),
          .schedule = &*run.schedule,
          .scaler = run.scaler.get(),
          .sampler = run.sampler->distributed(),
          .shard_sampler = run.sampler->sharded()};
}

SnapshotOptions snapshot_options(const Run& run) {
  using Best = SnapshotOptions::Best;
  const SavingOptions& o = run.options.snapshot;
  return {.path = run.snapshot_path,
          .keep_last = static_cast<int>(o.keep),
          .best = o.best == "accuracy" ? Best::highest
                  : o.best == "loss"   ? Best::lowest
                                       : Best::none,
          .fresh = o.fresh,
          .say = [](const std::string& sentence) { print_line(stderr, "train: " + sentence); }};
}

DataSpec data_spec(const Options& options) {
  DataSpec spec = options.data;
  spec.seed = options.training.seed;
  spec.channels_last = options.training.channels_last;
  spec.precision = options.training.precision;
  return spec;
}

ModelSpec model_spec(const Options& options, const Dataset& data) {
  ModelSpec spec = options.model;
  spec.channels = data.channels;
  spec.height = data.height;
  spec.width = data.width;
  spec.classes = data.classes;
  spec.vocabulary = static_cast<std::int64_t>(data.vocabulary.size());
  spec.context = data.context;
  spec.features = data.features;
  return spec;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerOptions& o,
                                                        const std::vector<at::Tensor>& parameters) {
  namespace optim = torch::optim;
  const auto betas = std::make_tuple(o.beta1, o.beta2);
  const StepMode mode = o.fused ? StepMode::fused : StepMode::automatic;
  if (o.name == "adam")
    return std::make_unique<Adam>(parameters,
                                  optim::AdamOptions(o.lr).betas(betas).eps(o.eps).weight_decay(o.weight_decay), mode);
  if (o.name == "adamw")
    return std::make_unique<AdamW>(
        parameters, optim::AdamWOptions(o.lr).betas(betas).eps(o.eps).weight_decay(o.weight_decay), mode);
  return std::make_unique<SGD>(
      parameters, optim::SGDOptions(o.lr).momentum(o.momentum).nesterov(o.nesterov).weight_decay(o.weight_decay), mode);
}

// Loading a snapshot also loads its run's settings; the current command line overrides them.
void apply_optimizer_settings(Run& run) {
  const auto fresh = make_optimizer(run.options.optimizer, {torch::zeros(1)});
  for (auto& group : run.optimizer->param_groups()) group.set_options(fresh->param_groups()[0].options().clone());
  set_lr(*run.optimizer, run.schedule->lr());
}

std::string percent_of(const Run& run) {
  return std::to_string(100 * run.epoch.samples / (run.epoch.samples + run.sampler->size() * run.group.world_size()));
}

// 3 of 10 epochs done, and 40 % of the next
std::string progress_text(const Run& run) {
  return std::to_string(run.at.epochs_run) + " of " + std::to_string(run.options.training.epochs) + " epochs done" +
         (run.epoch.steps > 0 ? ", and " + percent_of(run) + " % of the next" : "");
}

// Prints a line about settings that differ from those of the run that wrote the snapshot.
void report_changed_settings(const Run& run, const nlohmann::json& before, int ranks_before) {
  std::string changes;
  if (ranks_before != 0 && ranks_before != run.group.world_size())
    changes = "ranks " + std::to_string(ranks_before) + " -> " + std::to_string(run.group.world_size());
  for (const settings::Option* setting : all_settings()) {
    if (!changes_result(*setting) || !before.contains(setting->key)) continue;
    const std::string was = before[setting->key], is = text_of(*setting, run.options);
    if (was != is) changes += std::string(changes.empty() ? "" : ", ") + setting->key + " " + was + " -> " + is;
  }
  if (!changes.empty()) run.progress.line("going on with settings that differ from the snapshot's: " + changes);
}

// If an epoch has another number of steps than before, by ranks, batches or passes, the schedule continues at the same
// fraction of the run.
void align_schedule(Run& run) {
  const std::int64_t steps = steps_per_epoch(run), done = run.at.epochs_run * steps + run.epoch.steps;
  if (run.options.schedule.unit == "epoch") {
    if (run.schedule->steps() != run.at.epochs_run) run.schedule->resume(run.at.epochs_run);
    return;
  }
  if (run.schedule->steps() == done) return;
  const std::int64_t left = run.sampler->size() * run.group.world_size();
  const double share =
      run.epoch.steps == 0 ? 0 : static_cast<double>(run.epoch.samples) / static_cast<double>(run.epoch.samples + left);
  run.schedule->resume(run.at.epochs_run * steps + std::llround(share * static_cast<double>(steps)));
}

ProcessGroup join_group(Worker& worker, const Options& options, const RankEnv& env, std::optional<at::Device> device) {
  worker.phase(Phase::meeting);
  InitOptions init{.init_method = options.group.init_method,
                   .backend = !device             ? Backend::automatic
                              : device->is_cuda() ? Backend::nccl
                                                  : Backend::gloo,
                   .timeout = std::chrono::seconds(options.group.timeout)};
  if (options.machine.device == "cpu") init.backend = Backend::gloo;
  if (options.machine.device == "cuda") init.backend = Backend::nccl;
  if (options.group.rank >= 0) {
    init.rank = env.rank;
    init.world_size = env.world_size;
  }
  return init_process_group(init);
}

// An error that every rank finds and throws with the same text.
template <class Agreed = AgreedError>
Agreed agreed_error(const std::string& what, const std::string& why, const std::string& remedy) {
  return Agreed(Error(what, why, remedy).what());
}

// Ranks with different settings would wait for each other forever; nodes have a command line each.
void check_same_settings(Run& run) {
  const auto all = all_gather_object(run.settings, run.group);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    for (const auto& [key, value] : all[rank].items())
      if (!may_differ_between_ranks(key) && value != all[0][key])
        throw agreed_error<AgreedUsageError>("the ranks have different settings",
                                             "rank " + std::to_string(rank) + " has " + key + " = " +
                                                 value.get<std::string>() + " and rank 0 has " +
                                                 all[0][key].get<std::string>(),
                                             "Start all of them with the same settings.");
  const auto wants = [&](const char* key) { return !all[0][key].get<std::string>().empty(); };
  run.wanted = {.publish = wants("snapshot.publish"),
                .predictions = wants("evaluation.predictions"),
                .metrics = wants("logging.metrics") || wants("logging.tensorboard"),
                .result = wants("logging.result"),
                .every = std::stoll(all[0]["logging.every"].get<std::string>()),
                .verbose = all[0]["logging.verbose"] == "true"};
}

// Shards of other sizes would give the ranks other orders of the samples, and another images.json other values.
void check_same_shards(const Run& run) {
  ShardSampler* sampler = run.sampler->sharded();
  const nlohmann::json own{sampler ? sampler->state().data_digest : 0, run.data.images_json};
  const auto all = all_gather_object(own, run.group);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw agreed_error("the ranks have different data",
                         "the shards of rank " + std::to_string(rank) + " have other " +
                             (all[rank][0] != all[0][0] ? "sizes" : "contents of images.json") +
                             " than those of rank 0",
                         "Give each machine the same files.");
}

void check_same_data(const Run& run) {
  const nlohmann::json own{run.data.train.size(), run.data.test.size()};
  const auto all = all_gather_object(own, run.group);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw agreed_error("the ranks have different data",
                         "rank " + std::to_string(rank) + " has " + json_text(all[rank][0]) +
                             " samples to train on and " + json_text(all[rank][1]) + " to test on, and rank 0 has " +
                             json_text(all[0][0]) + " and " + json_text(all[0][1]),
                         "Give each machine the same files.");
}

// Checks files that are written at the end before training begins or old snapshots are renamed.
void check_output_files(const Run& run) {
  const Options& o = run.options;
  if (run.group.rank() != 0) return;
  for (const std::string& path : {o.logging.result, o.evaluation.predictions, o.snapshot.publish})
    if (!path.empty()) check_result_file(path);
}

std::uint64_t shuffle_seed(const Options& o) {
  return o.data.shuffle_seed < 0 ? o.training.seed : static_cast<std::uint64_t>(o.data.shuffle_seed);
}

// With shards each rank reads a part of them, and no others.
RunSampler make_sampler(const Run& run) {
  const int rank = run.group.rank(), ranks = run.group.world_size();
  const std::uint64_t seed = shuffle_seed(run.options);
  if (run.data.shard_records.empty())
    return RunSampler(
        DistributedSampler({.dataset_size = run.data.train.size(), .rank = rank, .world_size = ranks, .seed = seed}));
  return RunSampler(
      ShardSampler(run.data.shard_records, {.rank = rank,
                                            .world_size = ranks,
                                            .seed = seed,
                                            .mixed_shards = static_cast<int>(run.options.data.mixed_shards)}));
}

// A graph is recorded on the stream on which the run's objects were made.
void prepare_for_graph(const Run& run) {
  if (!run.options.training.cuda_graph) return;
  if (!run.device.is_cuda())
    throw UsageError("cannot repeat steps by a CUDA graph", "this run is on the CPU", "Leave out --cuda-graph.");
  use_own_stream(run.device);
}

// The ranks of a machine may make it at once.
void make_snapshot_folder(const Run& run) {
  const auto folder = std::filesystem::path(run.snapshot_path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (!error) return;
  const std::string what = "cannot make the folder " + folder.string(), remedy = "Name another place with --snapshot.";
  if (error == std::errc::no_such_file_or_directory || is_of_name(error.value()))
    throw UsageError(what, error.message(), remedy);
  throw Error(what, error.message(), remedy);
}

void make_model_and_sampler(Run& run) {
  const Options& o = run.options;
  torch::manual_seed(o.training.seed);
  run.model = make_model(model_spec(o, run.data));
  if (o.model.sync_batch_norm && run.model->buffers().empty())
    throw UsageError("cannot synchronise batch norm", "the model " + o.model.name + " has none",
                     "Leave out --sync-bn.");
  freeze_all_but(*run.model, o.model.train_only);
  run.sampler = std::make_unique<RunSampler>(make_sampler(run));
  run.schedule = make_schedule(o, steps_per_epoch(run));
}

}  // namespace

void begin_epoch(Run& run) {
  const at::Tensor sum = run.epoch.loss_sum.zero_();
  run.epoch = {.loss_sum = sum};
}

void step_schedule(Run& run) {
  run.schedule->step();
  set_lr(*run.optimizer, run.schedule->lr());
}

void check_loss(const Run& run, double sum) {
  if (std::isfinite(sum)) return;
  throw Error(
      "training ends at step " + std::to_string(run.at.step),
      std::string("a loss is ") + (std::isnan(sum) ? "not a number" : "infinite"),
      "Lower the learning rate, clip the gradients (--clip-norm), or leave such steps out (--skip-bad-losses).");
}

std::int64_t samples_per_epoch(const Run& run) {
  const std::int64_t ranks = run.group.world_size();
  return (run.data.train.size() + ranks - 1) / ranks;
}

std::int64_t steps_per_epoch(const Run& run) {
  const std::int64_t size = run.options.data.batch_size, batches = (samples_per_epoch(run) + size - 1) / size;
  return (batches + run.options.training.accumulate - 1) / run.options.training.accumulate;
}

Run begin_run(const CommandLine& config, const RankEnv& env, std::optional<at::Device> device, Progress& progress,
              Worker& worker, Kept& kept) {
  const Options& o = config.options;
  ProcessGroup group = join_group(worker, o, env, device);
  Run run{.config = config,
          .options = o,
          .env = env,
          .progress = progress,
          .worker = worker,
          .group = group,
          .device = group.device(),
          .early_stopping = BestTracker(o.evaluation.by == "accuracy", o.evaluation.patience),
          .best = BestTracker(o.snapshot.best == "accuracy", 0)};
  worker.phase(Phase::loading);
  run.settings = config_of(run);
  check_same_settings(run);
  choose_kernels(o.training);
  prepare_for_graph(run);
  all_or_none(group, [&] {
    check_output_files(run);
    if (!kept.data) kept.data = load_dataset(data_spec(o), run.device);
    run.data = *kept.data;
    make_model_and_sampler(run);
  });
  choose_snapshot_path(run);
  all_or_none(group, [&] { make_snapshot_folder(run); });
  check_same_data(run);
  check_same_shards(run);
  if (o.model.sync_batch_norm && group.world_size() > 1) convert_sync_batchnorm(*run.model);
  run.model->to(run.device);
  if (o.training.channels_last) to_channels_last(*run.model);
  run.optimizer = make_optimizer(o.optimizer, run.model->parameters());
  if (o.training.precision == "fp16")
    run.scaler = std::make_unique<GradScaler>(ScalerOptions{.init_scale = o.training.init_scale});
  if (o.training.skip_bad_losses > 0)
    run.guard = std::make_unique<LossGuard>(
        LossGuardOptions{.skips_in_a_row_max = static_cast<int>(o.training.skip_bad_losses)}, group);
  run.epoch.loss_sum = torch::zeros({}, torch::device(run.device).dtype(torch::kDouble));
  seed_everything(o.training.seed, group.rank());
  run.snapshots = std::make_unique<Snapshots>(snapshot_options(run), group);
  run.keep_interval = KeepInterval(o.snapshot.memory_steps, run.device.is_cuda());
  const auto resumed = resume_or_refuse(run, state_of(run));
  if (resumed) {
    run.at = resumed->at;
    restore_extra(run, resumed->extra, resumed->own);
    align_schedule(run);
    if (run.at.epochs_run < o.training.epochs && !run.early_stopping.has_stopped()) {
      progress.line("resuming from " + (resumed->from_memory ? "memory" : resumed->path) + ": " + progress_text(run));
      const std::string unused = !o.model.init.empty() ? "--init" : !o.model.transfer.empty() ? "--transfer" : "";
      if (!unused.empty()) progress.line(unused + " is ignored when a run is resumed; --fresh starts over");
      if (resumed->extra.is_object() && resumed->extra.contains("config"))
        report_changed_settings(run, resumed->extra["config"], resumed->world_size);
    }
  } else {
    std::string report;
    all_or_none(group, [&] {
      if (group.rank() == 0) report = load_initial_weights(*run.model, o.model);  // DDP copies them to the other ranks
    });
    if (!report.empty()) progress.line(report);
  }
  apply_optimizer_settings(run);
  // Gradients are undefined before each step, so that views of the buckets cost nothing.
  DdpOptions ddp{.gradient_as_bucket_view = true,
                 .broadcast_buffers = run.model->training_reads_buffers() && !o.model.no_broadcast_buffers,
                 .bucket_order = resumed ? resumed->bucket_order : BucketOrder{},
                 .batched_copies = run.device.is_cuda(),
                 .reduces_alone = false,
                 .sampled_times = !o.training.cuda_graph};
  if (o.group.bucket_mib > 0) ddp.bucket_bytes = static_cast<std::size_t>(o.group.bucket_mib * (1 << 20));
  run.ddp = std::make_unique<DistributedDataParallel<Model>>(run.model, ddp, run.group);
  if (o.training.cuda_graph)
    run.graphed = std::make_unique<GraphedSteps>(make_cuda_graph(), dynamic_cast<TakesGraph&>(*run.optimizer));
  return run;
}

void save_run(Run& run, std::optional<double> metric) {
  run.snapshots->save(
      state_of(run), {.at = run.at, .bucket_order = run.ddp->bucket_order(), .metric = metric, .extra = extra_of(run)});
}

namespace {

void require_kept(const Run& run, bool kept) {
  if (kept) return;
  const double sum = run.epoch.loss_sum.item<double>();
  check_loss(run, std::isfinite(sum) ? std::nan("") : sum);  // it may be another rank's
}

// The ranks keep the same steps, so that each has its part of a snapshot.
void agree_on_interval(Run& run) {
  run.steps_here += 1;
  run.interval_steps += 1;
  if (!run.keep_interval.is_agreed_after(run.steps_here)) return;
  finish_keeping(run);
  const KeepInterval::Seconds time = Clock::now() - run.interval_began;
  const at::Tensor steps = torch::tensor(run.keep_interval.proposal(time / static_cast<double>(run.interval_steps),
                                                                    run.keeping_time + run.snapshots->copying_time()));
  all_reduce(steps, ReduceOp::max, run.group);
  run.keep_interval.set(steps.item<std::int64_t>());
  run.interval_began = Clock::now();
  run.interval_steps = 0;
}

}  // namespace

void keep_run(Run& run) {
  if (!run.snapshots->keeps_in_memory()) return;
  if (run.keep_interval.is_due(run.at.step)) {
    if (run.device.is_cpu()) check_loss(run, run.epoch.loss_sum.item<double>());  // as before a file
    const TimePoint began = Clock::now();
    run.snapshots->begin_save_in_memory(state_of(run), {.at = run.at,
                                                        .bucket_order = run.ddp->bucket_order(),
                                                        .extra = common_extra_of(run),
                                                        .own_numbers = own_numbers_of(run)});
    run.keeping_time = Clock::now() - began;
  }
  agree_on_interval(run);
}

void finish_keeping(Run& run) { require_kept(run, run.snapshots->finish_save_in_memory()); }

// Before a step that is kept, all ranks have to have kept the one before: the next one replaces the one before that.
void hold_back_for_memory(Run& run) {
  require_kept(run, run.keep_interval.is_due(run.at.step + 1) ? run.snapshots->finish_save_in_memory()
                                                              : run.snapshots->hold_back_for_memory());
}

}  // namespace ddprun::train
