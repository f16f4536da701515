// Expands a node list as Slurm writes it: "n[01-03,7],login2" names n01, n02, n03, n7 and login2. Pure.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "launcher/settings/values.h"

namespace ddprun::launcher {

constexpr std::size_t kListedNodesMax = 65'536;  // Slurm's own limit for a range

// In the order of `scontrol show hostnames`, repeated names included. A range keeps the leading zeros of its first
// number; a name may have several ranges, and text behind them.
settings::Read<std::vector<std::string>> expand_node_list(const std::string& text);

}  // namespace ddprun::launcher
