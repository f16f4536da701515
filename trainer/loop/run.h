// One rank's run: the objects that training uses, and how they are saved to a snapshot and restored.
#pragma once
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "ddprun/amp.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/loss_guard.h"
#include "ddprun/lr_schedule.h"
#include "ddprun/snapshot.h"
#include "ddprun/worker.h"
#include "trainer/config/command_line.h"
#include "trainer/data/dataset.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/loop/best_tracker.h"
#include "trainer/loop/graphed_steps.h"
#include "trainer/loop/keep_interval.h"
#include "trainer/loop/progress.h"
#include "trainer/loop/run_sampler.h"
#include "trainer/models/models.h"

namespace ddprun::train {

// The current epoch's totals.
struct EpochTotals {
  std::int64_t steps = 0;
  std::int64_t samples = 0;  // over all ranks
  std::int64_t skipped = 0;  // of these, in skipped steps
  // Over this rank's samples except skipped ones, a double on its device; the sum from before a resume is rank 0's.
  at::Tensor loss_sum;

  double loss_of(double sum) const { return sum / static_cast<double>(std::max<std::int64_t>(samples - skipped, 1)); }
};

// What rank 0 has to write, known to all ranks, as some of it needs collectives.
struct Wanted {
  bool publish = false, predictions = false, metrics = false, result = false;
  std::int64_t every = 0;  // steps, of --log-every
  bool verbose = false;
};

// What a process need not load again when it stays for another round.
struct Kept {
  std::optional<Dataset> data = {};
};

struct Run {
  const CommandLine& config;
  const Options& options;
  const RankEnv& env;
  Progress& progress;
  Worker& worker;
  ProcessGroup group;
  at::Device device;
  BestTracker early_stopping, best;  // by evaluation.by, and by snapshot.best
  Dataset data = {};
  std::shared_ptr<Model> model = {};
  std::unique_ptr<torch::optim::Optimizer> optimizer = {};
  std::optional<LrSchedule> schedule = {};
  std::unique_ptr<GradScaler> scaler = {};  // of fp16
  std::unique_ptr<LossGuard> guard = {};    // if bad losses are skipped
  std::unique_ptr<RunSampler> sampler = {};
  std::unique_ptr<Snapshots> snapshots = {};
  std::unique_ptr<DistributedDataParallel<Model>> ddp = {};
  std::unique_ptr<GraphedSteps> graphed = {};  // with --cuda-graph
  KeepInterval keep_interval = {0, false};
  std::int64_t steps_here = 0;              // of this process, in this round
  TimePoint interval_began = Clock::now();  // of keep_interval's value
  std::int64_t interval_steps = 0;          // since then
  KeepInterval::Seconds keeping_time{0};    // of this thread, for the last snapshot in memory
  std::string snapshot_path = {};
  Position at = {};
  EpochTotals epoch = {};
  Wanted wanted = {};
  nlohmann::json settings = {};  // config_of()
};

// Joins the process group, loads the data, and resumes from the newest good snapshot if there is one. Every rank calls
// it; if one fails, all throw Error. `device`: given if a launcher told which ranks share the machine, else the group
// chooses it.
Run begin_run(const CommandLine& config, const RankEnv& env, std::optional<at::Device> device, Progress& progress,
              Worker& worker, Kept& kept);

// Call it between two steps, on every rank. `metric`: of an evaluation just made, the same on all ranks.
void save_run(Run& run, std::optional<double> metric = {});
// In memory only, where there is some for it and the step's turn has come.
void keep_run(Run& run);
// Before what changes the weights next: what is being copied in memory is copied. Throws Error if it was not kept, as
// the losses are not finite.
void hold_back_for_memory(Run& run);
void finish_keeping(Run& run);  // also before a step is kept again

// Sets the totals to those of a new epoch. The tensor stays the same, as a CUDA graph adds to it.
void begin_epoch(Run& run);

// Of this rank, in a whole epoch.
std::int64_t samples_per_epoch(const Run& run);

// Call it after each unit of the schedule.
void step_schedule(Run& run);

// Throws Error, on all ranks, if the sum of all ranks' losses is not finite: then the weights are lost, too.
void check_loss(const Run& run, double sum);

// Optimizer steps in a whole epoch.
std::int64_t steps_per_epoch(const Run& run);

}  // namespace ddprun::train
