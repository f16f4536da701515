// --print-config: every value in force and its origin, as TOML that --config reads back. Pure.
#pragma once
#include <string>

#include "launcher/config.h"

namespace ddprun::launcher {

std::string print_config(const Config& config);

}  // namespace ddprun::launcher
