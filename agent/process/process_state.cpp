#include "agent/process/process_state.h"

#include "agent/process/file_content.h"

namespace ddprun {

ProcessState process_state(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::string stat = file_content(folder + "/stat");
  const std::size_t name_end = stat.rfind(") ");  // the name may hold anything
  if (name_end == stat.npos || name_end + 2 >= stat.size()) return {};
  const std::string where = file_content(folder + "/wchan");
  return {stat[name_end + 2], where == "0" ? "" : where};
}

std::string survival_in_words(const ProcessState& state) {
  const std::string in = state.where.empty() ? "" : " in " + state.where;
  if (state.letter == 'D')
    return "the kernel holds it" + in + " (state D), as for a driver or a file server that does not answer";
  if (state.letter == '?') return "the kernel holds it, or it belongs to another user";
  return "it belongs to another user, or the kernel holds it" + in + " (state " + std::string(1, state.letter) + ")";
}

}  // namespace ddprun
