#include "agent/machine/nvml.h"

#include <dlfcn.h>

#include <array>
#include <memory>

namespace ddprun::agent {
namespace {

// The part of nvml.h that is used here.
struct NvmlMemory {
  unsigned long long total, free, used;
};
using NvmlDevice = void*;
using NvmlCall = int (*)();
using NvmlCount = int (*)(unsigned* count);
using NvmlHandle = int (*)(unsigned index, NvmlDevice* device);
using NvmlUuid = int (*)(NvmlDevice device, char* uuid, unsigned length);
using NvmlMemoryInfo = int (*)(NvmlDevice device, NvmlMemory* memory);

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

}  // namespace

Nvml ask_nvml() {
  const std::unique_ptr<void, CloseLibrary> library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  if (!library) return {};
  const auto init = reinterpret_cast<NvmlCall>(dlsym(library.get(), "nvmlInit_v2"));
  const auto end = reinterpret_cast<NvmlCall>(dlsym(library.get(), "nvmlShutdown"));
  const auto count = reinterpret_cast<NvmlCount>(dlsym(library.get(), "nvmlDeviceGetCount_v2"));
  const auto handle = reinterpret_cast<NvmlHandle>(dlsym(library.get(), "nvmlDeviceGetHandleByIndex_v2"));
  const auto uuid = reinterpret_cast<NvmlUuid>(dlsym(library.get(), "nvmlDeviceGetUUID"));
  const auto memory = reinterpret_cast<NvmlMemoryInfo>(dlsym(library.get(), "nvmlDeviceGetMemoryInfo"));
  Nvml out{.state = Nvml::fails};
  if (!init || !end || !count || !handle || !uuid || !memory || init() != 0) return out;
  unsigned devices = 0;
  if (count(&devices) == 0) out.state = Nvml::answers;
  for (unsigned i = 0; i < devices; ++i) {
    NvmlGpu& gpu = out.gpus.emplace_back();
    NvmlDevice device = nullptr;
    NvmlMemory bytes{};
    std::array<char, 96> text{};
    if (handle(i, &device) != 0) continue;
    if (uuid(device, text.data(), text.size() - 1) == 0) gpu.uuid = text.data();
    if (memory(device, &bytes) == 0) gpu.memory = {bytes.total, bytes.free};
  }
  end();
  return out;
}

}  // namespace ddprun::agent
