// torch::nn::parallel::data_parallel for the tour dp-vs-ddp: one process, several GPUs. LibTorch has it in its GPU
// half, so it lives in a library of its own (data_parallel_plugin.cpp), opened where it is used.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "trainer/tour/tour_net.h"

namespace ddprun::train {

// The net's output on devices[0], where net and input are; each device computes a part of the batch. After
// load_gpu_support() only. Error where the library is not there.
at::Tensor data_parallel_forward(const std::shared_ptr<TourNet>& net, const at::Tensor& input,
                                 const std::vector<at::Device>& devices);

// What the library has. By name, so that nothing of it is linked; the result comes by reference, as C knows no tensor.
using DataParallelForward = void(const std::shared_ptr<TourNet>& net, const at::Tensor& input,
                                 const std::vector<at::Device>& devices, at::Tensor& output);
inline constexpr const char* kDataParallelName = "ddprun_data_parallel_forward";

}  // namespace ddprun::train
