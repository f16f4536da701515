// One rank's run: what training works on, and the way of all of it into a snapshot and out again.
#pragma once
#include <torch/optim/sgd.h>

#include <memory>

#include "ddprun/distributed_data_parallel.h"
#include "ddprun/sampler.h"
#include "ddprun/snapshot.h"
#include "ddprun/worker.h"
#include "trainer/dataset.h"
#include "trainer/ddp/rank_env.h"
#include "trainer/models/models.h"
#include "trainer/options.h"
#include "trainer/progress.h"

namespace ddprun {

// Of the epoch that is under way.
struct EpochSoFar {
  std::int64_t steps = 0;
  std::int64_t samples = 0;  // over all ranks
  at::Tensor loss_sum;       // over this rank's samples, a double on its device; before a resume they are all rank 0's
};

struct Run {
  const Options& options;
  const RankEnv& env;
  at::Device device;
  Progress& progress;
  Worker& worker;
  Dataset data;
  ProcessGroup group;
  std::shared_ptr<Model> model = {};
  std::unique_ptr<torch::optim::SGD> optimizer = {};
  std::unique_ptr<DistributedSampler> sampler = {};
  std::unique_ptr<Snapshots> snapshots = {};
  std::unique_ptr<DistributedDataParallel<Model>> ddp = {};
  Position at = {};
  EpochSoFar epoch = {};
};

// Loads the data, meets the other ranks, and resumes from the newest good snapshot if there is one. Every rank calls
// it.
Run begin_run(const Options& options, const RankEnv& env, at::Device device, Progress& progress, Worker& worker);

// Between two steps. Every rank calls it.
void save_run(Run& run);

// A new epoch's account.
EpochSoFar new_epoch(at::Device device);

}  // namespace ddprun
