// What a user should know of a job before it starts, though it is started. Pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/plan/host_info.h"
#include "launcher/plan/program.h"

namespace ddprun::launcher {

std::vector<std::string> warnings(const Config& config, const Program& program, const HostInfo& host);  // sentences

}  // namespace ddprun::launcher
