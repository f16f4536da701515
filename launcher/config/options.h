// The table of ddprun's options. To add one: a row in options.cpp and a member in Config.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "launcher/settings/option.h"

namespace ddprun::launcher {

const settings::Table& options();
const settings::Option& option(const char* name);  // a name of the table
// `name`: of the table. The few settings are asked, not the table: a launch asks for many that nobody has given.
inline const settings::Setting* in_force(const std::vector<settings::Setting>& given, std::string_view name) {
  for (const settings::Setting& setting : given)
    if (setting.option->name == name) return settings::in_force(given, *setting.option);
  return nullptr;
}

// As settings::subject() for one that may be not given: "--nnodes" then.
std::string subject_of(const std::vector<settings::Setting>& given, const char* name);

}  // namespace ddprun::launcher
