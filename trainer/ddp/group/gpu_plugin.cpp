// Built into a separate library that links LibTorch's CUDA half. See gpu.h.
#include "trainer/ddp/group/gpu_plugin.h"

#ifdef USE_C10D_NCCL
#include <c10/cuda/CUDAFunctions.h>

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
#endif
