#include "trainer/ddp/group/cuda_driver.h"

#include <dlfcn.h>

#include <array>

#include "trainer/ddp/group/gpu_library.h"

namespace ddprun {
namespace {

// CUresult of cuda.h
constexpr int kStubLibrary = 34, kNoDevice = 100, kNotReady = 802, kDriverMismatch = 803;

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::string text_of(int cuda_version) {
  return std::to_string(cuda_version / 1000) + "." + std::to_string(cuda_version % 1000 / 10);
}

std::string hexadecimal(const std::array<unsigned char, 16>& bytes) {
  std::string out;
  for (const unsigned char byte : bytes)
    for (const int digit : {byte >> 4, byte & 15}) out += "0123456789abcdef"[digit];
  return out;
}

// "CUDA Toolkit Release Notes", table 2: minor versions of CUDA share the driver that the first of them came with.
std::string update_to(int cuda_major) {
  const char* const branch = cuda_major == 11   ? "R450"
                             : cuda_major == 12 ? "R525"
                             : cuda_major == 13 ? "R580"
                                                : nullptr;
  return branch ? " (driver " + std::string(branch) + " or later)" : "";
}

std::string remedy_for(int init) {
  if (init == kNotReady) return "Start NVIDIA's fabric manager (nvidia-fabricmanager) on this machine.";
  if (init == kDriverMismatch)
    return "The driver was updated and its kernel module was not loaded again: restart the machine.";
  if (init == kStubLibrary) return "Take the folder of CUDA's stubs out of LD_LIBRARY_PATH.";
  return "See what nvidia-smi says.";
}

}  // namespace

DriverAnswers ask_driver() {
  DriverAnswers answers;
  void* const driver = dlopen(kCudaDriverLibrary, RTLD_NOW | RTLD_LOCAL);
  const auto init = driver ? symbol<int(unsigned)>(driver, "cuInit") : nullptr;
  const auto get_count = driver ? symbol<int(int*)>(driver, "cuDeviceGetCount") : nullptr;
  answers.found = init && get_count;
  if (!answers.found) return answers;
  if (const auto version = symbol<int(int*)>(driver, "cuDriverGetVersion")) version(&answers.version);
  answers.init = init(0);
  if (answers.init == 0) answers.init = get_count(&answers.count);
  const char* name = nullptr;
  if (const auto name_of = symbol<int(int, const char**)>(driver, "cuGetErrorName"); name_of && answers.init)
    name_of(answers.init, &name);
  if (name) answers.init_name = name;
  if (answers.init) return answers;
  const auto get_device = symbol<int(int*, int)>(driver, "cuDeviceGet");
  const auto get_uuid = symbol<int(unsigned char*, int)>(driver, "cuDeviceGetUuid_v2");
  for (int i = 0; i < answers.count && get_device && get_uuid; ++i) {
    int device = 0;
    std::array<unsigned char, 16> uuid{};
    if (get_device(&device, i) != 0 || get_uuid(uuid.data(), device) != 0) break;
    answers.uuids.push_back(hexadecimal(uuid));
  }
  if (static_cast<int>(answers.uuids.size()) != answers.count) answers.uuids.clear();
  return answers;
}

Gpus gpus_of(const DriverAnswers& driver, int cuda_version) {
  if (!driver.found || cuda_version == 0 || driver.init == kNoDevice) return {};
  Gpus gpus;
  if (driver.init != 0) {
    gpus.problem = "the NVIDIA driver says " + (driver.init_name.empty() ? "error" : driver.init_name) + " (" +
                   std::to_string(driver.init) + ")";
    gpus.remedy = remedy_for(driver.init);
    return gpus;
  }
  const int needed = cuda_version / 1000;
  if (driver.count > 0 && driver.version > 0 && driver.version / 1000 < needed) {
    gpus.too_old = "the NVIDIA driver supports CUDA " + text_of(driver.version) + ", and this LibTorch needs CUDA " +
                   std::to_string(needed) + update_to(needed);
    return gpus;
  }
  gpus.count = driver.count;
  gpus.uuids = driver.uuids;
  return gpus;
}

}  // namespace ddprun
