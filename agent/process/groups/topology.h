// Reads from /sys and /proc what numa.h needs: nodes, CPUs, caches, what we are allowed to use, and where the GPUs are.
#pragma once
#include <filesystem>

#include "agent/process/groups/gpu_files.h"
#include "agent/process/groups/numa.h"

namespace ddprun::agent {

// Reads only what a binding of this kind needs. `root` differs only in tests. NVIDIA's GPUs are in the order of their
// bus addresses, which is CUDA's if all are of one kind; AMD's and Intel's as in gpu_files.h. Unreadable parts are
// missing in the Topology.
Topology read_topology(NumaBinding kind, const GpuVariables& variables, const std::filesystem::path& root = "/");

}  // namespace ddprun::agent
