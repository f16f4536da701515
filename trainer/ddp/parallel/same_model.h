// Checks that all ranks have the same model before any of it is sent: different shapes would cause a hang, or an error
// on one rank only.
#pragma once
#include <torch/nn/module.h>

#include "ddprun/process_group.h"

namespace ddprun {

// A collective. Throws the same Error on every rank, naming the first rank that differs from rank 0 and the difference.
void require_same_model(const ProcessGroup& group, const torch::nn::Module& module);

}  // namespace ddprun
