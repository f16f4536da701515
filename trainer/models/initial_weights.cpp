#include "trainer/models/initial_weights.h"

#include <torch/torch.h>

namespace ddprun::train {

void init_for_relu(torch::nn::Conv2dImpl& layer) {
  torch::nn::init::kaiming_normal_(layer.weight, 0, torch::kFanOut, torch::kReLU);
  if (layer.bias.defined()) torch::nn::init::zeros_(layer.bias);
}

void init_small(torch::nn::LinearImpl& layer) {
  torch::nn::init::normal_(layer.weight, 0, 0.01);
  torch::nn::init::zeros_(layer.bias);
}

}  // namespace ddprun::train
