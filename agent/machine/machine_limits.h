// --health-limits: what a machine must have to take part in rounds: free disk space, free memory on its GPUs, a clock
// that is kept right.
//
// why_unfit() is pure; machine_facts() reads the machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct MachineLimits {
  std::optional<std::uint64_t> disk_bytes = {};  // free in each folder that the job writes to
  std::optional<int> gpu_memory_percent = {};    // free on each GPU
  std::optional<Duration> clock = {};            // the kernel's own bound of its clock's error

  bool any() const { return disk_bytes || gpu_memory_percent || clock; }
};

struct FreeSpace {
  std::string folder = {};
  std::optional<std::uint64_t> bytes = {};  // empty: the file system does not say
};
struct GpuMemory {
  int index = 0;  // NVML's, as nvidia-smi shows it
  std::uint64_t total_bytes = 0, free_bytes = 0;
  bool readable = true;  // false: the driver could not say
};
struct MachineFacts {
  std::vector<FreeSpace> disks = {};
  std::vector<GpuMemory> gpus = {};          // none: no GPU, or no driver
  std::optional<Duration> clock_error = {};  // empty: nothing keeps the clock right
};

// "GPU 3 has 12 % of its memory free, less than 90 %"; empty: the machine has all of it.
std::string why_unfit(const MachineLimits& limits, const MachineFacts& facts);

// Only what the limits are about is read. `folders`: those that the job writes to.
MachineFacts machine_facts(const MachineLimits& limits, const std::vector<std::string>& folders);

}  // namespace ddprun::agent
