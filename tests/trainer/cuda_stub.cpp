// Stands in for the NVIDIA driver: answers what CUDA_STUB_INIT, CUDA_STUB_VERSION and CUDA_STUB_COUNT say.
#include <cstdlib>

namespace {

int number(const char* name) {
  const char* const text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) { return number("CUDA_STUB_INIT"); }
int cuDriverGetVersion(int* version) {
  *version = number("CUDA_STUB_VERSION");
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = number("CUDA_STUB_COUNT");
  return 0;
}
int cuGetErrorName(int result, const char** name) {
  *name = result == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : nullptr;
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<unsigned char>(device);
  return 0;
}
}
