#include "launcher/settings.h"

#include "launcher/options.h"

namespace ddprun {

std::string subject(const Setting& setting) {
  switch (setting.origin) {
    case Origin::normally:
      return std::string("--") + setting.option->name;
    case Origin::file:
      return setting.place + ": " + setting.option->name;
    case Origin::environment:
      return setting.place + " in the environment";
    case Origin::command_line:
      break;
  }
  return setting.place;
}

const Setting* in_force(const std::vector<Setting>& settings, const OptionRow& option) {
  const Setting* found = nullptr;
  for (const Setting& setting : settings)
    if (setting.option == &option && (!found || setting.origin >= found->origin)) found = &setting;
  return found;
}

}  // namespace ddprun
