// Sets a schedule's rate in LibTorch's optimizers.
#pragma once
#include <torch/optim/optimizer.h>

#pragma GCC visibility push(default)
namespace ddprun {

// For all its parameter groups, from the next step on.
inline void set_lr(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

}  // namespace ddprun
#pragma GCC visibility pop
