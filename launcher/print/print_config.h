// --print-config: every value in force and its origin, as TOML that --config reads back. Pure.
// `python`: a sentence on the interpreter that scripts get.
#pragma once
#include <string>

#include "launcher/config/config.h"

namespace ddprun::launcher {

std::string print_config(const Config& config, const std::string& python = {});
// -v: of these only what is not ddprun's default, and what runs.
std::string print_changed_config(const Config& config, const std::string& python = {});

}  // namespace ddprun::launcher
