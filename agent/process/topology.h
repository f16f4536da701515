// Reads from /sys and /proc what numa.h needs: nodes, CPUs, caches, what we are allowed to use, and where the GPUs are.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "agent/process/numa.h"

namespace ddprun::agent {

// Reads only what a binding of this kind needs. `visible` is CUDA_VISIBLE_DEVICES, null if not set. `root` differs only
// in tests. Finds NVIDIA GPUs only, in the order of their bus addresses, which is CUDA's order if all are of one kind.
// Unreadable parts are missing in the Topology.
Topology read_topology(NumaBinding kind, const char* visible, const std::filesystem::path& root = "/");

// Which of the devices, whose ids are "GPU-4a..." or empty, a program sees, in its order. As CUDA parses it: numbers or
// prefixes of ids; the first wrong entry ends the list.
std::vector<std::size_t> visible_devices(const char* visible, const std::vector<std::string>& ids);

}  // namespace ddprun::agent
