// Reads of /sys and /proc what numa.h decides on: nodes, CPUs, caches, what we are allowed to use, and where the GPUs
// are.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "agent/process/numa.h"

namespace ddprun::agent {

// As much as a binding of this kind needs. `visible` is CUDA_VISIBLE_DEVICES, null where it is not set. `root` is
// another one only in tests. Knows NVIDIA's GPUs only, in the order of their bus addresses, which is CUDA's where all
// are of one kind. Where nothing can be read, the Topology is emptier.
Topology read_topology(NumaBinding kind, const char* visible, const std::filesystem::path& root = "/");

// Which of the devices, whose ids are "GPU-4a..." or empty, a program will see as its first, second, ... one.
// As CUDA reads it: numbers or beginnings of ids; the first wrong entry ends the list.
std::vector<std::size_t> visible_devices(const char* visible, const std::vector<std::string>& ids);

}  // namespace ddprun::agent
