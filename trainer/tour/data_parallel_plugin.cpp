// Built into a separate library that links LibTorch's GPU half. See data_parallel.h.
#include <torch/torch.h>

#include <torch/nn/parallel/data_parallel.h>

#include "trainer/tour/data_parallel.h"

extern "C" __attribute__((visibility("default"))) void ddprun_data_parallel_forward(
    const std::shared_ptr<ddprun::train::TourNet>& net, const at::Tensor& input, const std::vector<at::Device>& devices,
    at::Tensor& output) {
  output = torch::nn::parallel::data_parallel(net, input, devices, devices.front());
}
