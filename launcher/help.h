// --help and --version. Pure.
#pragma once
#include <string>

namespace ddprun::launcher {

// The first screen, or all options of the group whose name starts with `group`.
std::string help_text(const std::string& group = "");

const char* version();
std::string version_text();

}  // namespace ddprun::launcher
