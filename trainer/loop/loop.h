// The training run of one rank: from its snapshot or its first weights to the last epoch.
#pragma once
#include <c10/core/Device.h>

#include <optional>

#include "trainer/config/command_line.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/loop/progress.h"
#include "trainer/loop/run.h"

namespace ddprun::train {

enum class Ending {
  done,     // all epochs, or ended by early stopping
  unsaved,  // the same, but the last snapshot could not be written
  saved,    // the launcher asked for a snapshot and an end
  requeue,  // saved after SIGTERM, without a launcher
  left,     // the launcher asked for an end, as another rank failed
};

// Runs to the end. Throws Error for what a person can fix; is_loss_of_peer() (process_group.h) tells whether an
// exception means a lost peer. `device` as in begin_run (run.h).
// `kept` outlives rounds of one process.
Ending train(const CommandLine& config, const RankEnv& env, std::optional<at::Device> device, Progress& progress,
             Worker& worker, Kept& kept);

}  // namespace ddprun::train
