// hang_ddp STEPS FAULT RANK STEP: trains on the library, with batches from a DataLoader, a loss over all ranks after
// every tenth step, and a snapshot five steps later. In the job's first round the rank RANK has the fault at that step,
// and writes "fault" first.
//
// Faults: loop, deadlock, stop, skip (the loss; STEP is a multiple of ten), load, loader (the DataLoader has a thread,
// which stands still), disk (a sample is in stuck/file), none.
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "ddprun/collectives.h"
#include "ddprun/data_loader.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/sampler.h"
#include "ddprun/snapshot.h"
#include "ddprun/tensor_batch.h"
#include "ddprun/worker.h"
#include "tests/e2e/faults.h"

namespace {

using namespace ddprun::test;
namespace nn = torch::nn;

constexpr std::int64_t kSamples = 240, kBatch = 4, kFeatures = 8, kClasses = 3, kReportEvery = 10, kSaveAt = 5;

struct Fault {
  std::string kind;
  int rank = -1;
  std::int64_t step = 0;

  bool is_here() const { return std::atoi(std::getenv("RANK")) == rank && std::atoi(std::getenv("DDPRUN_ROUND")) == 1; }
  bool is_due(const std::string& what, std::int64_t at) const { return kind == what && at == step && is_here(); }
  // A thread that loads ahead may see each step late or not at all.
  bool is_over_due(const std::string& what, std::int64_t at) const { return kind == what && at >= step && is_here(); }
};

std::atomic<std::int64_t> step_now{0};  // for threads that load

__attribute__((noinline)) void stop_here() {
  if (raise(SIGSTOP) != 0) std::abort();  // no tail call: this frame shall be seen
}

__attribute__((noinline)) void await_sample() {
  for (;;) pause();
}

void compute(const Fault& fault, std::int64_t step) {
  if (fault.is_due("loop", step)) tell_fault(), spin_forever();
  if (fault.is_due("deadlock", step)) tell_fault(), lock_twice();
  if (fault.is_due("stop", step)) tell_fault(), stop_here();
}

ddprun::Tensors sample(const Fault& fault, std::int64_t index) {
  const std::int64_t step = step_now;
  if (fault.is_due("load", step) || fault.is_over_due("loader", step)) tell_fault(), await_sample();
  if (fault.is_due("disk", step)) tell_fault(), read_stuck_file();
  const at::Tensor features = torch::full({kFeatures}, static_cast<double>(index % 7) / 7);
  return {features + torch::arange(kFeatures) / 10.0, torch::tensor(index % kClasses)};
}

struct Net : nn::Module {
  at::Tensor forward(const at::Tensor& x) { return last(torch::relu(norm(first(x)))); }
  nn::Linear first = register_module("first", nn::Linear(kFeatures, 16));
  nn::BatchNorm1d norm = register_module("norm", nn::BatchNorm1d(16));
  nn::Linear last = register_module("last", nn::Linear(16, kClasses));
};

using Loader = ddprun::DataLoader<ddprun::Tensors, ddprun::Tensors>;

struct Training {
  const Fault fault;
  const std::int64_t steps;
  ddprun::Worker& worker;
  const ddprun::ProcessGroup& group;
  ddprun::Snapshots& snapshots;
  const ddprun::TrainingState state;
  ddprun::DistributedDataParallel<Net>& ddp;
  ddprun::Position at;

  at::Tensor train(const ddprun::Tensors& batch) {
    ddp.zero_grad();
    const at::Tensor loss = torch::cross_entropy_loss(ddp.forward(batch[0]), batch[1]);
    compute(fault, step_now);
    loss.backward();
    state.optimizer->step();
    state.sampler->advance(batch[0].size(0));
    return loss.detach();
  }
  void report(const at::Tensor& loss) const {
    if (fault.is_due("skip", step_now)) return tell_fault();
    ddprun::all_reduce(loss, ddprun::ReduceOp::avg, group);
  }
  void save() { snapshots.save(state, {.at = at, .bucket_order = ddp.bucket_order()}); }
  // False: ddprun asked to leave.
  bool step(const ddprun::Tensors& batch) {
    const at::Tensor loss = train(batch);
    at.step = step_now;
    if (at.step % kReportEvery == 0) report(loss);
    if (at.step % kReportEvery == kSaveAt) save();
    step_now = at.step + 1;
    return worker.step_done(static_cast<std::uint64_t>(at.step)) == ddprun::Asked::nothing;
  }
  // False: ddprun asked to leave.
  bool epoch(const Loader& loader) {
    state.sampler->set_epoch(at.epochs_run);
    auto batches = loader.epoch(*state.sampler);
    while (at.step < steps) {
      const auto batch = batches.next();
      if (!batch) break;
      if (!step(*batch)) return false;
    }
    at.epochs_run += 1;
    return true;
  }
};

void run(const Fault& fault, std::int64_t steps) {
  ddprun::Worker worker;
  const auto group = ddprun::init_process_group();
  torch::manual_seed(1);
  auto net = std::make_shared<Net>();
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  ddprun::DistributedSampler sampler(
      {.dataset_size = kSamples, .rank = group.rank(), .world_size = group.world_size(), .seed = 3});
  const ddprun::TrainingState state{.model = *net, .optimizer = &optimizer, .sampler = &sampler};
  ddprun::Snapshots snapshots({.path = "run.pt"}, group);
  ddprun::DistributedDataParallel ddp(net, {}, group);
  const Loader loader([&](std::int64_t index, ddprun::SampleRng&) { return sample(fault, index); }, ddprun::Collate{},
                      {.batch_size = kBatch, .threads = fault.kind == "loader" ? 1 : 0, .prefetch = 1});
  step_now = 1;
  worker.phase(ddprun::Phase::training);
  Training training{fault, steps, worker, group, snapshots, state, ddp, {}};
  while (training.at.step < steps)
    if (!training.epoch(loader)) return;
  snapshots.finish();
  worker.phase(ddprun::Phase::finishing);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) return 2;
  run({argv[2], std::atoi(argv[3]), std::atoi(argv[4])}, std::atoi(argv[1]));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
