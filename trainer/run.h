// One rank's run: what training works on, and the way of all of it into a snapshot and out again.
#pragma once
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "ddprun/amp.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/loss_guard.h"
#include "ddprun/lr_schedule.h"
#include "ddprun/sampler.h"
#include "ddprun/snapshot.h"
#include "ddprun/worker.h"
#include "trainer/config/command_line.h"
#include "trainer/data/dataset.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/judge.h"
#include "trainer/models/models.h"
#include "trainer/progress.h"

namespace ddprun::train {

// Of the epoch that is under way.
struct EpochSoFar {
  std::int64_t steps = 0;
  std::int64_t samples = 0;  // over all ranks
  std::int64_t skipped = 0;  // of these, in steps that were left out
  // Over this rank's samples but the skipped ones, a double on its device; before a resume they are all rank 0's.
  at::Tensor loss_sum;

  double loss_of(double sum) const { return sum / static_cast<double>(std::max<std::int64_t>(samples - skipped, 1)); }
};

// What rank 0 is to write, as all ranks know: some of it takes a part of each.
struct Wanted {
  bool publish = false, predictions = false, metrics = false, result = false;
};

struct Run {
  const CommandLine& config;
  const Options& options;
  const RankEnv& env;
  Progress& progress;
  Worker& worker;
  ProcessGroup group;
  at::Device device;
  Judge judge, best;  // by evaluation.by, and by snapshot.best
  Dataset data = {};
  std::shared_ptr<Model> model = {};
  std::unique_ptr<torch::optim::Optimizer> optimizer = {};
  std::optional<LrSchedule> schedule = {};
  std::unique_ptr<GradScaler> scaler = {};  // of fp16
  std::unique_ptr<LossGuard> guard = {};    // where bad losses are skipped
  std::unique_ptr<DistributedSampler> sampler = {};
  std::unique_ptr<Snapshots> snapshots = {};
  std::unique_ptr<DistributedDataParallel<Model>> ddp = {};
  Position at = {};
  EpochSoFar epoch = {};
  Wanted wanted = {};
};

// Meets the other ranks, loads the data, and resumes from the newest good snapshot if there is one. Every rank calls
// it; what one of them cannot do is an Error on all. `device`: where a launcher has told who shares the machine, else
// the group finds it.
Run begin_run(const CommandLine& config, const RankEnv& env, std::optional<at::Device> device, Progress& progress,
              Worker& worker);

// Between two steps. Every rank calls it. `metric`: of an evaluation just made, the same on all ranks.
void save_run(Run& run, std::optional<double> metric = {});

// A new epoch's account.
EpochSoFar new_epoch(at::Device device);

// A unit of the schedule is over.
void step_schedule(Run& run);

// Error, on all ranks, where the sum of losses over all of them is not finite: then the weights are lost, too.
void check_loss(const Run& run, double sum);

// Optimizer steps of a whole epoch.
std::int64_t steps_per_epoch(const Run& run);

}  // namespace ddprun::train
