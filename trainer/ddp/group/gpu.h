// The GPU half of LibTorch, loaded only where there is a GPU: it costs every worker 0.2 s and 350 MB to load, GPU or
// not. So it lives in a library of its own (gpu_plugin.cpp) that is opened at run time; without it, or without a
// driver, this machine has no GPUs.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace ddprun {

// GPUs that CUDA shows to this process (CUDA_VISIBLE_DEVICES counts). 0 without a driver or without our library.
// Asks the driver alone: nothing of LibTorch's GPU half is loaded.
int count_gpus();

// Loads it. Call it before the first use of at::kCUDA: LibTorch remembers having found no CUDA.
void load_gpu_support();

// NCCL between the ranks that meet in `store`, this one on `device`. After load_gpu_support() only.
c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                            at::Device device);

}  // namespace ddprun
