// The GPU half of LibTorch, loaded only if there is a GPU: loading costs every worker 0.2 s and 350 MB, even without a
// GPU. So it is in a separate library (gpu_plugin.cpp) that is opened at run time; without it, or without a driver,
// this machine counts as having no GPUs.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstddef>
#include <memory>

#include "trainer/ddp/group/cuda_driver.h"
#include "trainer/ddp/group/step_graph.h"

namespace ddprun {

// Those visible to this process (respects CUDA_VISIBLE_DEVICES). None without a driver or without our library. Asks
// only the driver and loads nothing of LibTorch's GPU half.
Gpus find_gpus();
int count_gpus();

// Call it before the first use of at::kCUDA: LibTorch remembers that it found no CUDA. Throws Error, also where that
// has happened.
void load_gpu_support();

// NCCL between the ranks that meet in `store`, this one on `device`. After load_gpu_support() only.
c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                            at::Device device);

// This thread works on a stream of its own from now on: no step can be recorded on the default stream, and what is made
// once, such as DistributedDataParallel, has to be made on the stream of the steps. After load_gpu_support() only.
void use_own_stream(at::Device device);

// Lets the GPU copy from and to these pages by itself; LibTorch's pinned memory has a power of two of bytes. False: it
// cannot, as without a GPU.
bool pin_memory(void* begin, std::size_t bytes);
void unpin_memory(void* begin);

// A CUDA graph, for this thread's stream: call use_own_stream() first. Destroy it before the process group that its
// step uses.
std::unique_ptr<StepGraph> make_cuda_graph();

}  // namespace ddprun
