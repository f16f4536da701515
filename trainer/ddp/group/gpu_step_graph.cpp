// The CUDA graph of a step, in the GPU library. Sources: torch/cuda/graphs.py, and "CUDA Graphs" in PyTorch's notes on
// CUDA semantics (docs/source/notes/cuda.rst).
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "trainer/ddp/group/gpu_plugin.h"

namespace ddprun {
namespace {

class CudaStepGraph : public StepGraph {
 public:
  // The generator of the device's random numbers registers itself when the step draws some: each replay draws new ones.
  void record(const std::function<void()>& step) override {
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();  // the graph has memory of its own
    // Other threads may call CUDA meanwhile: NCCL's watchdog asks for events of earlier calls, and loaders pin memory.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      step();
    } catch (...) {
      try {
        graph_.capture_end();
      } catch (const std::exception&) {  // the first error is the cause
      }
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

}  // namespace
}  // namespace ddprun

extern "C" __attribute__((visibility("default"))) void ddprun_use_own_stream(at::Device device) {
  c10::cuda::set_device(device.index());
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
}

extern "C" __attribute__((visibility("default"))) void ddprun_make_step_graph(
    std::unique_ptr<ddprun::StepGraph>& result) {
  result = std::make_unique<ddprun::CudaStepGraph>();
}
