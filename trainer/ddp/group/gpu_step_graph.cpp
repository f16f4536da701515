// The CUDA graph of a step, in the GPU library. Sources: torch/cuda/graphs.py, and "CUDA Graphs" in PyTorch's notes on
// CUDA semantics (docs/source/notes/cuda.rst).
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <array>

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
    const auto pool = at::cuda::graph_pool_handle();
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      step();
      graph_.capture_end();
    } catch (...) {
      give_up(pool);
      throw;
    }
  }

  // The host stays at most two steps ahead: it would queue whole epochs, and what asks for the last one wait as long.
  void replay() override {
    at::cuda::CUDAEvent& step_before_last = done_[replays_++ % done_.size()];
    step_before_last.synchronize();
    graph_.replay();
    step_before_last.record();
  }

 private:
  // A capture that failed ends without giving up its memory: the allocator would ask the graph, which is gone soon,
  // about each allocation to come (CUDAGraph.cpp, capture_begin and capture_end). The first error is the cause.
  void give_up(const decltype(at::cuda::graph_pool_handle())& pool) {
    try {
      graph_.capture_end();
      return;
    } catch (const std::exception&) {
    }
    try {
      const auto device = c10::cuda::current_device();
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool);
      c10::cuda::CUDACachingAllocator::releasePool(device, pool);
    } catch (const std::exception&) {  // it was given up before the error
    }
  }

  at::cuda::CUDAGraph graph_;
  std::array<at::cuda::CUDAEvent, 2> done_;  // of the last two replays
  std::size_t replays_ = 0;
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
