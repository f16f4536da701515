// Built into a separate library that links LibTorch's CUDA half. See gpu.h.
#include "trainer/ddp/group/gpu_plugin.h"

#ifdef USE_C10D_NCCL
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

extern "C" __attribute__((visibility("default"))) void ddprun_make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                                                        int rank, int world_size, at::Device device,
                                                                        c10::intrusive_ptr<c10d::Backend>& result) {
  c10::cuda::set_device(device.index());
  auto nccl =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world_size, c10d::ProcessGroupNCCL::Options::create());
  nccl->eagerConnectSingleDevice(device);
  result = nccl;
}

extern "C" __attribute__((visibility("default"))) bool ddprun_pin_memory(void* begin, std::size_t bytes) {
  if (cudaHostRegister(begin, bytes, cudaHostRegisterPortable) == cudaSuccess) return true;
  static_cast<void>(cudaGetLastError());  // not an error of the next call
  return false;
}

extern "C" __attribute__((visibility("default"))) void ddprun_unpin_memory(void* begin) {
  static_cast<void>(cudaHostUnregister(begin));
}
#endif
