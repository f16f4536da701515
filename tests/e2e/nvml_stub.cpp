// Stands in for NVIDIA's management library: three GPUs with a tenth of their memory free.
#include <cstdio>

struct Memory {
  unsigned long long total, free, used;
};

static unsigned indices[] = {0, 1, 2};

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &indices[index];
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  std::snprintf(uuid, length, "GPU-%u0", *static_cast<unsigned*>(device));
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* /*device*/, Memory* memory) {
  *memory = {80ULL << 30, 8ULL << 30, 72ULL << 30};
  return 0;
}
}
