// --help. Pure.
#pragma once
#include <string>

namespace ddprun::launcher {

// The first screen; or all options of the group whose name starts with `name`, of "all" groups, or the option of that
// name. Empty: there is none.
std::string help_text(const std::string& name = "");
// Says so.
std::string no_help(const std::string& name);

}  // namespace ddprun::launcher
