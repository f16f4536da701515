// What does not go together with --hosts. Pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/config/config.h"

namespace ddprun::launcher {

// Contradictions between --hosts and other options, one sentence each. Empty without --hosts.
std::vector<std::string> host_problems(const Config& config);

}  // namespace ddprun::launcher
