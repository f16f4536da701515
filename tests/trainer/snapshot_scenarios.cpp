#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

#include "ddprun/amp.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/lr_schedule.h"
#include "ddprun/sampler.h"
#include "ddprun/set_lr.h"
#include "ddprun/snapshot.h"
#include "tests/trainer/ddp_worker.h"

namespace ddprun::test {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kSamples = 117, kBatch = 5;

// Everything a snapshot has to hold: statistics that differ from rank to rank, and chance in the forward pass.
struct Net : nn::Module {
  at::Tensor forward(const at::Tensor& input) { return last(dropout(torch::relu(norm(first(input))))); }
  nn::Linear first = register_module("first", nn::Linear(6, 8));
  nn::BatchNorm1d norm = register_module("norm", nn::BatchNorm1d(8));
  nn::Dropout dropout = register_module("dropout", nn::Dropout(0.3));
  nn::Linear last = register_module("last", nn::Linear(8, 3));
};

struct Big : nn::Module {
  explicit Big(std::int64_t size) : weight(register_parameter("weight", torch::zeros({size}))) {}
  at::Tensor weight;
};

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const std::string& name,
                                                      const std::vector<at::Tensor>& parameters) {
  if (name == "sgd")
    return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
  if (name == "adam")
    return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.1).amsgrad(true));
  return std::make_unique<torch::optim::AdamW>(parameters);
}

void print_step(const Position& at, const at::Tensor& batch) {
  std::printf("step %ld of epoch %ld saw", static_cast<long>(at.step), static_cast<long>(at.epochs_run));
  for (std::int64_t i = 0; i < batch.size(0); ++i)
    std::printf(" %ld", static_cast<long>(batch[i].item<std::int64_t>()));
  std::printf("\n");
}

}  // namespace

void train_with_snapshots(const ProcessGroup& group, const Words& words) {
  const std::int64_t steps = std::stol(words.at(2));
  const std::string every_step = words.size() > 3 ? words[3] : "";
  torch::manual_seed(7);
  const at::Tensor inputs = torch::randn({kSamples, 6}).to(group.device()),
                   targets = torch::randn({kSamples, 3}).to(group.device());
  torch::manual_seed(100 + group.rank());
  auto net = std::make_shared<Net>();
  net->to(group.device());
  const auto optimizer = optimizer_of(words.at(1), net->parameters());
  LrSchedule schedule(0.05, StepLR{.step_size = 3, .gamma = 0.7});
  GradScaler scaler({.init_scale = 8, .growth_interval = 3});
  DistributedSampler sampler(
      {.dataset_size = kSamples, .rank = group.rank(), .world_size = group.world_size(), .seed = 3});
  const TrainingState state{
      .model = *net, .optimizer = optimizer.get(), .schedule = &schedule, .scaler = &scaler, .sampler = &sampler};

  Snapshots snapshots({.path = words.at(0)}, group);
  const auto resumed = snapshots.resume(state);
  if (resumed && resumed->from_memory) {
    const auto rank = static_cast<std::size_t>(group.rank());
    require(resumed->own.at(rank) == nlohmann::json(group.rank()), "each rank has its own data again");
    std::printf("from memory at step %ld\n", static_cast<long>(resumed->at.step));
  }
  Position at = resumed ? resumed->at : Position{};
  if (!resumed) set_lr(*optimizer, schedule.lr());
  DistributedDataParallel ddp(
      net, {.bucket_bytes = 64, .bucket_order = resumed ? resumed->bucket_order : BucketOrder{}}, group);
  while (at.step < steps) {
    sampler.set_epoch(at.epochs_run);
    for (const at::Tensor& batch : torch::tensor(sampler.indices()).split(kBatch)) {
      const at::Tensor there = batch.to(group.device());
      ddp.zero_grad();
      const at::Tensor loss =
          torch::mse_loss(ddp.forward(inputs.index_select(0, there)), targets.index_select(0, there));
      scaler.scale(loss).backward();
      scaler.step(*optimizer);
      scaler.update();
      schedule.step();
      set_lr(*optimizer, schedule.lr());
      sampler.advance(batch.size(0));
      at.step += 1;
      at.samples_seen += batch.size(0) * group.world_size();
      print_step(at, batch);
      if (sampler.size() == 0) at.epochs_run += 1;
      const SaveRequest request{
          .at = at, .bucket_order = ddp.bucket_order(), .extra = {{"rank", group.rank()}}, .own = group.rank()};
      if (every_step == "every-step" || at.step == steps) snapshots.save(state, request);
      if (every_step == "in-memory") snapshots.save_in_memory(state, request);
      if (at.step == steps) break;
    }
  }
  snapshots.finish();
}

void save_repeatedly(const ProcessGroup& group, const Words& words) {
  Big model(1 << 20);
  const TrainingState state{.model = model};
  const bool wants_best = words.size() > 2;
  Snapshots snapshots({.path = words.at(0),
                       .best = wants_best ? SnapshotOptions::Best::lowest : SnapshotOptions::Best::none,
                       .asynchronous = false},
                      group);
  const auto resumed = snapshots.resume(state);
  std::int64_t step = resumed ? resumed->at.step : 0;
  require(model.weight.eq(static_cast<double>(step)).all().item<bool>(), "the weights are of the step that was saved");
  std::printf("resumed %ld\n", static_cast<long>(step));
  const std::int64_t end = words.size() > 1 ? std::stol(words[1]) : std::numeric_limits<std::int64_t>::max();
  while (step < end) {
    ++step;
    {
      const torch::NoGradGuard no_grad;
      model.weight.fill_(static_cast<double>(step));
    }
    snapshots.save(state, {.at = {.step = step}, .metric = std::abs(static_cast<double>(step - 2))});
    std::printf("saved %ld\n", static_cast<long>(step));
  }
  snapshots.finish();
}

// Begins to keep one after each step. Forward changes the buffer while the weights are copied.
void keep_repeatedly(const ProcessGroup& group, const Words& words) {
  Big model(1 << 21);
  model.register_buffer("buffer", torch::zeros({8}));
  const TrainingState state{.model = model};
  Snapshots snapshots({.path = words.at(0)}, group);
  const auto resumed = snapshots.resume(state);
  std::int64_t step = resumed ? resumed->at.step : 0;
  for (const at::Tensor& tensor : {model.weight, model.buffers().at(0)})
    require(tensor.eq(static_cast<double>(step)).all().item<bool>(), "the whole state is of the step that was kept");
  std::printf("resumed %ld\n", static_cast<long>(step));
  const torch::NoGradGuard no_grad;
  for (const std::int64_t end = std::stol(words.at(1)); step < end;) {
    ++step;
    model.buffers().at(0).fill_(static_cast<double>(step));
    snapshots.finish_save_in_memory();
    model.weight.fill_(static_cast<double>(step));
    snapshots.begin_save_in_memory(state, {.at = {.step = step}});
    std::printf("step %ld\n", static_cast<long>(step));
  }
}

// A later snapshot does not fit into memory any more.
void outgrow_memory(const ProcessGroup& group, const Words& words) {
  Big model(16);
  Snapshots snapshots({.path = words.at(0), .asynchronous = false}, group);
  const auto resumed = snapshots.resume({.model = model});
  if (!resumed) {
    snapshots.save_in_memory({.model = model}, {.at = {.step = 1}});
    snapshots.save({.model = model}, {.at = {.step = 2}, .extra = std::string(1 << 20, 'x')});
    snapshots.finish();
    std::exit(1);
  }
  std::printf("step %ld from %s\n", static_cast<long>(resumed->at.step), resumed->from_memory ? "memory" : "disk");
}

}  // namespace ddprun::test
