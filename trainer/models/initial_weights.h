// Initialises weights as torchvision does for its convolutional models.
#pragma once
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace ddprun::train {

// nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu"), and a bias of 0.
void init_for_relu(torch::nn::Conv2dImpl& layer);
// nn.init.normal_(weight, 0, 0.01), and a bias of 0.
void init_small(torch::nn::LinearImpl& layer);

}  // namespace ddprun::train
