// What NVIDIA's management library says of this machine's GPUs. It comes with the driver, not with us, and may take a
// second to start.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

struct NvmlGpu {
  struct Memory {
    std::uint64_t total = 0, free = 0;  // bytes
  };
  std::string uuid = {};  // "GPU-..."; empty: it does not say
  std::optional<Memory> memory = {};
};

struct Nvml {
  enum State { absent, fails, answers } state = absent;
  std::vector<NvmlGpu> gpus = {};  // by index
};

Nvml ask_nvml();

}  // namespace ddprun::agent
