// The training run of one rank: from its snapshot or its first weights to the last epoch.
#pragma once
#include <ATen/core/Tensor.h>

#include "trainer/ddp/rank_env.h"
#include "trainer/options.h"
#include "trainer/progress.h"

namespace ddprun {

// Runs to the end. Error for what a person can mend; what a lost peer throws is told by is_loss_of_peer (group.h).
void train(const Options& options, const RankEnv& env, at::Device device, Progress& progress);

}  // namespace ddprun
