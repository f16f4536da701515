#include "agent/machine/machine_limits.h"

#include <sys/statvfs.h>
#include <sys/timex.h>

#include <cstdio>

#include "agent/diagnosis/oom_count.h"
#include "agent/machine/nvml.h"

namespace ddprun::agent {
namespace {

std::string seconds_in_words(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", std::chrono::duration<double>(time).count());
  return text;
}

std::vector<GpuMemory> gpu_memory() {
  const Nvml nvml = ask_nvml();
  std::vector<GpuMemory> out;
  if (nvml.state == Nvml::fails) out.push_back({.readable = false});
  for (const NvmlGpu& gpu : nvml.gpus) {
    const NvmlGpu::Memory memory = gpu.memory.value_or(NvmlGpu::Memory{});
    out.push_back({static_cast<int>(out.size()), memory.total, memory.free, gpu.memory.has_value()});
  }
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
  if (limits.clock && !facts.clock_error) return "no NTP daemon keeps its clock, so nobody knows how right it is";
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
