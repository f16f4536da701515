// The table of ddprun's options. To add one: a row in options.cpp and a member in Config.
#pragma once
#include "launcher/settings/option.h"

namespace ddprun::launcher {

const settings::Table& options();
const settings::Option& option(const char* name);  // a name of the table
inline const settings::Setting* in_force(const std::vector<settings::Setting>& given, const char* name) {
  return settings::in_force(given, option(name));
}

}  // namespace ddprun::launcher
