#include "trainer/tour/data_parallel.h"

#include <dlfcn.h>

#include "rendezvous/base/error.h"

namespace ddprun::train {
namespace {

constexpr const char* kPlugin = "libddprun_data_parallel.so";  // found by the program's run path

DataParallelForward* open_plugin() {
  void* plugin = dlopen(kPlugin, RTLD_NOW | RTLD_LOCAL);
  if (!plugin)
    throw Error("cannot use several GPUs in one process", dlerror(), "Install the library beside train's own ones.");
  const auto function = reinterpret_cast<DataParallelForward*>(dlsym(plugin, kDataParallelName));
  check(function != nullptr, "the library of data_parallel has its one function");
  return function;
}

}  // namespace

at::Tensor data_parallel_forward(const std::shared_ptr<TourNet>& net, const at::Tensor& input,
                                 const std::vector<at::Device>& devices) {
  static DataParallelForward* const forward = open_plugin();
  at::Tensor output;
  forward(net, input, devices, output);
  return output;
}

}  // namespace ddprun::train
