// One rank's run: what training works on, and the way of all of it into a snapshot and out again.
#pragma once
#include <torch/optim/sgd.h>

#include <memory>

#include "ddprun/distributed_data_parallel.h"
#include "trainer/dataset.h"
#include "trainer/ddp/rank_env.h"
#include "trainer/models.h"
#include "trainer/options.h"
#include "trainer/progress.h"

namespace ddprun {

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
  ProcessGroup group;
  std::shared_ptr<Model> model;
  std::unique_ptr<torch::optim::SGD> optimizer;
  std::unique_ptr<DistributedDataParallel<Model>> ddp;
  Position at;
  bool is_first() const { return env.rank == 0; }
};

// Loads the data, meets the other ranks, and resumes from the newest good snapshot if there is one. Every rank calls
// it.
Run begin_run(const Options& options, const RankEnv& env, at::Device device, Progress& progress);

// Rank 0 writes; every rank calls it, for each has its generators to add. Between two epochs only.
void save_run(Run& run);

}  // namespace ddprun
