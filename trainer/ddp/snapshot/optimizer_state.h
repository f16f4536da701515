// Optimizers as values in Python's layout, so that load_state_dict() of either language takes the other's.
//
// Source: Optimizer.state_dict (state by the parameter's number, counted through the groups; param_groups as a list of
// dicts) and _init_group() of torch/optim/sgd.py, adam.py. SGD, Adam and AdamW; others are an Error.
#pragma once
#include <torch/optim/optimizer.h>

#include <string>

#include "trainer/ddp/snapshot/state_dict.h"

namespace ddprun {

// The tensors are the optimizer's own, on its device.
Dict optimizer_state(const torch::optim::Optimizer& optimizer);

// Takes momentum, averages and step counts; learning rate and the like stay those that the optimizer was made with.
// Error, and the optimizer stays as it was, where the state is another optimizer's or another model's.
void load_optimizer_state(torch::optim::Optimizer& optimizer, const Dict& state, const std::string& source);

}  // namespace ddprun
