// The training run of one rank: from its snapshot or its first weights to the last epoch.
#pragma once
#include <c10/core/Device.h>

#include <optional>

#include "trainer/config/command_line.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/progress.h"

namespace ddprun::train {

enum class Ending {
  done,     // all epochs, or as many as brought anything
  unsaved,  // the same, but the last snapshot could not be written
  saved,    // the launcher asked for a snapshot and an end
  requeue,  // SIGTERM did, and there is no launcher
  left,     // it asked for an end, as the job has failed elsewhere
};

// Runs to the end. Error for what a person can mend; what a lost peer throws is told by is_loss_of_peer
// (process_group.h). `device` as in begin_run (run.h).
Ending train(const CommandLine& config, const RankEnv& env, std::optional<at::Device> device, Progress& progress);

}  // namespace ddprun::train
