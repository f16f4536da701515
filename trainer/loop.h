// The training run of one rank: from its snapshot or its first weights to the last epoch.
#pragma once
#include <ATen/core/Tensor.h>

#include "trainer/ddp/rank_env.h"
#include "trainer/options.h"
#include "trainer/progress.h"

namespace ddprun {

enum class Ending {
  done,   // all epochs
  saved,  // the launcher asked for a snapshot and an end
  left,   // it asked for an end, as the job has failed elsewhere
};

// Runs to the end. Error for what a person can mend; what a lost peer throws is told by is_loss_of_peer (group.h).
Ending train(const Options& options, const RankEnv& env, at::Device device, Progress& progress);

}  // namespace ddprun
