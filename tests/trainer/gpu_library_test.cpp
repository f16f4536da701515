// The GPU half of the trainer, as far as it can be tried without a GPU.
#include <torch/torch.h>

#include "tests/support/test.h"
#include "trainer/ddp/group/gpu.h"

#ifdef DDPRUN_TORCH_GPU
TEST_CASE("the GPU half of LibTorch loads into a program that was started without it", "[gpu_library]") {
  REQUIRE_NOTHROW(load_gpu_support());
  CHECK(at::Context::hasCUDART());
  const auto add = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  CHECK(add.hasKernelForDispatchKey(c10::DispatchKey::CUDA));
  CHECK(torch::cuda::device_count() == static_cast<c10::DeviceIndex>(count_gpus()));
  if (count_gpus() == 0) CHECK_THROWS_AS(make_cuda_graph(), c10::Error);  // it asks for the GPU's stream
}
#else
TEST_CASE("a trainer built without NCCL has no GPUs", "[gpu_library]") { CHECK(count_gpus() == 0); }
#endif
