#include "agent/process/process_state.h"

#include "agent/process/files/file_content.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {

ProcessState process_state(pid_t pid) {
  const auto process = task_stat(pid);
  if (!process) return {};
  const std::string where = file_content(table_entry(pid) / "wchan");
  return {process->state, where == "0" ? "" : where};
}

std::string survival_in_words(const ProcessState& state) {
  const std::string in = state.where.empty() ? "" : " in " + state.where;
  if (state.letter == 'D')
    return "the kernel holds it" + in + " (state D), as for a driver or a file server that does not answer";
  if (state.letter == '?') return "the kernel holds it, or it belongs to another user";
  return "it belongs to another user, or the kernel holds it" + in + " (state " + std::string(1, state.letter) + ")";
}

}  // namespace ddprun::agent
