// torch::nn::parallel::data_parallel for the tour dp-vs-ddp: one process, several GPUs. It needs LibTorch's GPU half,
// so it is in a separate library (data_parallel_plugin.cpp), opened on use.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "trainer/tour/tour_net.h"

namespace ddprun::train {

// The net's output on devices[0], where net and input are; each device computes a part of the batch. Call it after
// load_gpu_support(). Throws Error if the library is missing.
at::Tensor data_parallel_forward(const std::shared_ptr<TourNet>& net, const at::Tensor& input,
                                 const std::vector<at::Device>& devices);

// The library's function. Found by name, so that it is not linked; returns by reference, as C has no tensors.
using DataParallelForward = void(const std::shared_ptr<TourNet>& net, const at::Tensor& input,
                                 const std::vector<at::Device>& devices, at::Tensor& output);
inline constexpr const char* kDataParallelName = "ddprun_data_parallel_forward";

}  // namespace ddprun::train
