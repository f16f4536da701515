// Optimizers as values in Python's layout, so that load_state_dict() of either language reads the other's.
//
// Source: Optimizer.state_dict (state by the parameter's number across the groups; param_groups as a list of dicts) and
// _init_group() of torch/optim/sgd.py, adam.py. SGD, Adam and AdamW; others are an Error.
#pragma once
#include <torch/optim/optimizer.h>

#include <string>

#include "trainer/ddp/snapshot/state_dict.h"

namespace ddprun {

// The tensors are the optimizer's own, on its device.
Dict optimizer_state(const torch::optim::Optimizer& optimizer);

// Loads momentum, averages and step counts; learning rate and other options stay the optimizer's own. If the state is
// of another optimizer or model, throws StateMismatch and leaves the optimizer unchanged.
void load_optimizer_state(torch::optim::Optimizer& optimizer, const Dict& state, const std::string& source);

}  // namespace ddprun
