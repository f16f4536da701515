// Whether all ranks have the same model, asked before anything of it travels: tensors of other shapes would end as a
// hang, or as an error on one rank alone.
#pragma once
#include <torch/nn/module.h>

#include "ddprun/process_group.h"

namespace ddprun {

// A collective. Throws the same Error on every rank, naming the first rank that differs from rank 0, and where.
void require_same_model(const ProcessGroup& group, const torch::nn::Module& module);

}  // namespace ddprun
