#include "agent/machine_limits.h"

#include <dlfcn.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

#include <cstdio>
#include <memory>

#include "agent/diagnosis/oom_count.h"

namespace ddprun::agent {
namespace {

std::string seconds_in_words(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", std::chrono::duration<double>(time).count());
  return text;
}

// The part of NVIDIA's management library (nvml.h) that is used here. It comes with the driver, not with us.
struct NvmlMemory {
  unsigned long long total, free, used;
};
using NvmlDevice = void*;
using NvmlInit = int (*)();
using NvmlCount = int (*)(unsigned* count);
using NvmlHandle = int (*)(unsigned index, NvmlDevice* device);
using NvmlMemoryInfo = int (*)(NvmlDevice device, NvmlMemory* memory);

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

std::vector<GpuMemory> gpu_memory() {
  const std::unique_ptr<void, CloseLibrary> library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  if (!library) return {};
  const auto init = reinterpret_cast<NvmlInit>(dlsym(library.get(), "nvmlInit_v2"));
  const auto end = reinterpret_cast<NvmlInit>(dlsym(library.get(), "nvmlShutdown"));
  const auto count = reinterpret_cast<NvmlCount>(dlsym(library.get(), "nvmlDeviceGetCount_v2"));
  const auto handle = reinterpret_cast<NvmlHandle>(dlsym(library.get(), "nvmlDeviceGetHandleByIndex_v2"));
  const auto memory = reinterpret_cast<NvmlMemoryInfo>(dlsym(library.get(), "nvmlDeviceGetMemoryInfo"));
  const GpuMemory unreadable{.readable = false};
  if (!init || !end || !count || !handle || !memory || init() != 0) return {unreadable};
  std::vector<GpuMemory> out;
  unsigned devices = 0;
  if (count(&devices) != 0) out.push_back(unreadable);
  for (unsigned i = 0; i < devices; ++i) {
    NvmlDevice device = nullptr;
    NvmlMemory bytes{};
    const bool readable = handle(i, &device) == 0 && memory(device, &bytes) == 0;
    out.push_back({static_cast<int>(i), bytes.total, bytes.free, readable});
  }
  end();
  return out;
}

// What adjtimex(2) says: a daemon (chrony, ntpd) keeps the clock, and how wrong it can be at most.
std::optional<Duration> clock_error() {
  timex state{};
  const int kept = adjtimex(&state);
  if (kept < 0 || kept == TIME_ERROR || (state.status & STA_UNSYNC) != 0) return {};
  return std::chrono::microseconds(state.maxerror);
}

std::vector<FreeSpace> free_space(const std::vector<std::string>& folders) {
  std::vector<FreeSpace> out;
  for (const std::string& folder : folders) {
    struct statvfs space {};
    FreeSpace& disk = out.emplace_back(FreeSpace{folder});
    if (statvfs(folder.c_str(), &space) == 0) disk.bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  }
  return out;
}

}  // namespace

namespace {

std::string why_unfit(const FreeSpace& disk, std::uint64_t limit) {
  if (!disk.bytes) return disk.folder + " does not say how much disk space is left";
  if (*disk.bytes >= limit) return {};
  return disk.folder + " has " + bytes_in_words(*disk.bytes) + " of disk space left, less than " +
         bytes_in_words(limit);
}

std::string why_unfit(const GpuMemory& gpu, int limit) {
  const std::string name = "GPU " + std::to_string(gpu.index);
  if (!gpu.readable || gpu.total_bytes == 0) return name + " does not say how much of its memory is free";
  const double percent = 100.0 * static_cast<double>(gpu.free_bytes) / static_cast<double>(gpu.total_bytes);
  if (percent >= limit) return {};
  return name + " has " + std::to_string(static_cast<int>(percent)) + " % of its memory free, less than " +
         std::to_string(limit) + " %";
}

}  // namespace

std::string why_unfit(const MachineLimits& limits, const MachineFacts& facts) {
  if (limits.disk_bytes)
    for (const FreeSpace& disk : facts.disks)
      if (std::string why = why_unfit(disk, *limits.disk_bytes); !why.empty()) return why;
  if (limits.gpu_memory_percent)
    for (const GpuMemory& gpu : facts.gpus)
      if (std::string why = why_unfit(gpu, *limits.gpu_memory_percent); !why.empty()) return why;
  if (limits.clock && !facts.clock_error)
    return "the kernel does not know how right its clock is: an NTP daemon has not told it";
  if (limits.clock && *facts.clock_error > *limits.clock)
    return "its clock may be wrong by " + seconds_in_words(*facts.clock_error) + ", more than " +
           seconds_in_words(*limits.clock);
  return {};
}

MachineFacts machine_facts(const MachineLimits& limits, const std::vector<std::string>& folders) {
  MachineFacts facts;
  if (limits.disk_bytes) facts.disks = free_space(folders);
  if (limits.gpu_memory_percent) facts.gpus = gpu_memory();
  if (limits.clock) facts.clock_error = clock_error();
  return facts;
}

}  // namespace ddprun::agent
