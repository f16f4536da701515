#include "launcher/config/help.h"

#include "launcher/config/options.h"
#include "launcher/settings/help.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using namespace settings;

std::string overview() {
  std::string out =
      "usage: ddprun [options] PROGRAM [its arguments]; ddprun run|submit|report FILE\n"
      "       ddprun status|top|describe|log|list|ctl|cancel|stacks|chaos JOB\n"
      "Starts and restarts a job's workers: a .py file, any executable, or train.\n\n";
  for (const Option& option : options().options)
    if (*option.brief) out += help_entry(option_heading(option), option.brief);
  out += "\n--max_restarts 5 and PET_MAX_RESTARTS=5 work, too. More: ddprun --help GROUP|all\n";
  for (const Group* group : options().groups)
    if (group->kind != Group::foreign) out += help_entry(group->name, group->title, 14);
  return out;
}

std::string screen(const Group& group) {
  return std::string(group.name) + ": " + group.title + "\n\n" + help_entries(options(), group);
}

std::string all_groups() {
  std::string out;
  for (const Group* group : options().groups)
    if (group->kind != Group::hidden) out += (out.empty() ? "" : "\n") + screen(*group);
  return out;
}

}  // namespace

std::string help_text(const std::string& name) {
  if (name.empty()) return overview();
  if (name == "all") return all_groups();
  if (const Group* group = find_group(options(), name)) return screen(*group);
  if (name.find_first_of("./") != name.npos) return overview();  // -h train.py
  const auto abbreviated = settings::abbreviated(options(), name);
  const Option* option = abbreviated.size() == 1 ? abbreviated.front() : find_option(options(), name);
  return option ? help_entry(option_heading(*option), option_sentence(options(), *option)) : "";
}

std::string no_help(const std::string& name) {
  std::vector<std::string> names{"all"};
  for (const Group* group : options().groups) names.push_back(group->name);
  for (const Option& option : options().options) names.push_back(option.name);
  return "--help is '" + name + "', which is no group of options and no option." + did_you_mean(name, names) +
         " ddprun --help lists the groups.";
}

}  // namespace ddprun::launcher
