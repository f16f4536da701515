// SGD's step for a group of parameters. Source: torch/optim/sgd.py of PyTorch 2.15, _multi_tensor_sgd and _fused_sgd.
#pragma once
#include <torch/optim/sgd.h>

#include "trainer/ddp/parallel/optimizer_step.h"

namespace ddprun {

// `lists.states` is one list, the momentum buffers; undefined ones are filled. Only a fused step takes a scaling, and
// `rate`: the learning rate, one float on the parameters' device; undefined: that of the options.
void step_sgd(StepLists& lists, const torch::optim::SGDOptions& options, bool fused, const Scaling& scaling,
              const at::Tensor& rate = {});

}  // namespace ddprun
