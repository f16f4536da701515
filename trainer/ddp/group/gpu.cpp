#include "trainer/ddp/group/gpu.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "ddprun/gpu.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "trainer/ddp/group/gpu_library.h"
#include "trainer/ddp/group/gpu_plugin.h"
#include "trainer/ddp/group/nccl_settings.h"
#include "trainer/ddp/group/rank_env.h"

namespace ddprun {
namespace {

struct Plugin {
  MakeNccl* make_nccl = nullptr;
  UseOwnStream* use_own_stream = nullptr;
  MakeStepGraph* make_step_graph = nullptr;
  PinMemory* pin_memory = nullptr;
  UnpinMemory* unpin_memory = nullptr;
};
Plugin loaded;

template <class Function>
Function* find(void* plugin, const char* name) {
  auto* function = reinterpret_cast<Function*>(dlsym(plugin, name));
  check(function != nullptr, "the GPU library has its functions");
  return function;
}

#ifdef DDPRUN_CUDA_VERSION
constexpr int kCudaVersion = DDPRUN_CUDA_VERSION;
#else
constexpr int kCudaVersion = 0;
#endif

}  // namespace

Gpus find_gpus() { return kCudaVersion ? gpus_of(ask_driver(), kCudaVersion) : Gpus{}; }

int count_gpus() { return find_gpus().count; }

void load_gpu_support() {
  void* plugin = dlopen(kGpuLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (!plugin)
    throw Error("cannot load the GPU half of the trainer", dlerror(),
                "Install it beside train's own libraries, or pass --device cpu.");
  loaded = {.make_nccl = find<MakeNccl>(plugin, kMakeNcclName),
            .use_own_stream = find<UseOwnStream>(plugin, kUseOwnStreamName),
            .make_step_graph = find<MakeStepGraph>(plugin, kMakeStepGraphName),
            .pin_memory = find<PinMemory>(plugin, kPinMemoryName),
            .unpin_memory = find<UnpinMemory>(plugin, kUnpinMemoryName)};
  if (!at::detail::getCUDAHooks().hasCUDART())  // made once, by whoever asks first
    throw Error("cannot use the GPUs", "LibTorch was asked for CUDA before its GPU half was loaded, and found none",
                "Call ddprun::use_gpus() first in main(), before torch::manual_seed() and the like.");
}

int use_gpus() {
  const Gpus gpus = find_gpus();
  if (!gpus.problem.empty()) throw Error("cannot use the GPUs", gpus.problem, gpus.remedy);
  if (!gpus.too_old.empty()) print_line(stderr, "the GPUs are not used: " + gpus.too_old + ".");
  if (gpus.count > 0) load_gpu_support();
  return gpus.count;
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                            at::Device device) {
  check(loaded.make_nccl != nullptr, "load_gpu_support() comes before make_nccl()");
  c10::intrusive_ptr<c10d::Backend> result;
  for (const auto& [name, value] : nccl_settings(process_environment())) setenv(name.c_str(), value.c_str(), 1);
  loaded.make_nccl(store, rank, world_size, device, result);
  return result;
}

void use_own_stream(at::Device device) {
  check(loaded.use_own_stream != nullptr, "load_gpu_support() comes before use_own_stream()");
  loaded.use_own_stream(device);
}

bool pin_memory(void* begin, std::size_t bytes) { return loaded.pin_memory && loaded.pin_memory(begin, bytes); }

void unpin_memory(void* begin) {
  if (loaded.unpin_memory) loaded.unpin_memory(begin);
}

std::unique_ptr<StepGraph> make_cuda_graph() {
  check(loaded.make_step_graph != nullptr, "load_gpu_support() comes before make_cuda_graph()");
  std::unique_ptr<StepGraph> result;
  loaded.make_step_graph(result);
  return result;
}

}  // namespace ddprun
