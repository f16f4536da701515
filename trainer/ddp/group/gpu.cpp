#include "trainer/ddp/group/gpu.h"

#include <dlfcn.h>

#include "rendezvous/base/error.h"
#include "trainer/ddp/group/gpu_plugin.h"

namespace ddprun {
namespace {

constexpr const char* kPlugin = "libddprun_gpu.so";  // found by the program's run path
MakeNccl* make_nccl_in_plugin = nullptr;

#ifdef DDPRUN_TORCH_GPU
constexpr bool kPluginBuilt = true;
#else
constexpr bool kPluginBuilt = false;
#endif

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

// Asks the driver's own library, the only source; opening it costs nothing if it is not installed.
int count_gpus() {
  if (!kPluginBuilt) return 0;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return 0;
  const auto init = symbol<int(unsigned)>(driver, "cuInit");
  const auto get_count = symbol<int(int*)>(driver, "cuDeviceGetCount");
  int count = 0;
  return init && get_count && init(0) == 0 && get_count(&count) == 0 ? count : 0;
}

void load_gpu_support() {
  void* plugin = dlopen(kPlugin, RTLD_NOW | RTLD_GLOBAL);
  if (!plugin)
    throw Error("cannot load the GPU half of the trainer", dlerror(),
                "Install it beside train's own libraries, or pass --device cpu.");
  make_nccl_in_plugin = symbol<MakeNccl>(plugin, kMakeNcclName);
  check(make_nccl_in_plugin != nullptr, "the GPU library has its one function");
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                            at::Device device) {
  check(make_nccl_in_plugin != nullptr, "load_gpu_support() comes before make_nccl()");
  c10::intrusive_ptr<c10d::Backend> result;
  make_nccl_in_plugin(store, rank, world_size, device, result);
  return result;
}

}  // namespace ddprun
