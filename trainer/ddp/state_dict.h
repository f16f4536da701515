// Models and optimizers as values in Python's layout, so that load_state_dict() of either language takes the other's.
//
// Sources: Module.state_dict (module by module, parameters before buffers, names joined by dots) and
// Optimizer.state_dict (state by the parameter's number, param_groups as a list of dicts) of PyTorch.
#pragma once
#include <ATen/core/ivalue.h>
#include <torch/optim/sgd.h>

#include <string>

#include "trainer/models.h"

namespace ddprun {

using Dict = c10::impl::GenericDict;
Dict make_dict();

// The tensors are the model's own, moved to the CPU where they are not there.
Dict model_state(const torch::nn::Module& model);

// Copies into the model's tensors. Error, naming the tensor, unless names and shapes are the model's; `source` is for
// the message. "module." before every name (Python's DDP saved as it is) is taken off.
void load_model_state(torch::nn::Module& model, const Dict& state, const std::string& source);

Dict optimizer_state(const torch::optim::SGD& optimizer);

// Takes the momentum; learning rate and the like stay those the run was started with.
void load_optimizer_state(torch::optim::SGD& optimizer, const Dict& state, const std::string& source);

}  // namespace ddprun
