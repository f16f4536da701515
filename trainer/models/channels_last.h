// Images and convolutions whose memory has the channels last (NHWC). Names, shapes and values stay as they are.
#pragma once
#include <torch/nn/module.h>

namespace ddprun::train {

// All tensors of 4 dimensions, in place. Call it before an optimizer and DistributedDataParallel see them.
// Source: torch/nn/modules/module.py, to(memory_format=torch.channels_last).
void to_channels_last(torch::nn::Module& model);
// images: [n, channels, height, width]
at::Tensor to_channels_last(const at::Tensor& images);

}  // namespace ddprun::train
