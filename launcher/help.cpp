#include "launcher/help.h"

#include "launcher/options.h"
#include "launcher/settings/help.h"

namespace ddprun::launcher {
namespace {

using namespace settings;

std::string overview() {
  std::string out =
      "usage: ddprun [options] PROGRAM [its arguments]\n"
      "       ddprun run|submit|report FILE; status|top|ctl|log|list|cancel|stacks JOB\n"
      "Starts and restarts a job's workers: a .py file, any executable, or train.\n\n";
  for (const Option& option : options().options)
    if (*option.brief) out += help_entry(option_heading(option), option.brief);
  out += "\n--max_restarts 5 and PET_MAX_RESTARTS=5 work, too. More: ddprun --help GROUP\n";
  for (const Group* group : options().groups)
    if (group->kind != Group::foreign) out += help_entry(group->name, group->title, 14);
  return out;
}

}  // namespace

std::string help_text(const std::string& name) {
  const Group* group = find_group(options(), name);
  if (!group) return overview();
  return std::string(group->name) + ": " + group->title + "\n\n" + help_entries(options(), *group);
}

const char* version() { return DDPRUN_VERSION; }
std::string version_text() { return std::string("ddprun ") + version() + "\n"; }

}  // namespace ddprun::launcher
