#include "trainer/models/channels_last.h"

#include <torch/torch.h>

namespace ddprun::train {

at::Tensor to_channels_last(const at::Tensor& images) {
  return images.to(images.scalar_type(), /*non_blocking=*/true, /*copy=*/false, at::MemoryFormat::ChannelsLast);
}

void to_channels_last(torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (const auto& tensors : {model.parameters(), model.buffers()})
    for (const at::Tensor& tensor : tensors)
      if (tensor.dim() == 4) tensor.set_data(to_channels_last(tensor.detach()));
}

}  // namespace ddprun::train
