// `ddprun stacks [JOB]`: prints what every worker of a running job does now, with the stacks of its threads.
#pragma once
#include <string>
#include <vector>

#include "agent/stacks/stacks_socket.h"

namespace ddprun::launcher {

// The exit code. `words`: those after "stacks". JOB is a run id, or its beginning, or the process id of an agent or of
// ddprun on this machine.
int show_stacks(const std::vector<std::string>& words);

// The agent to ask, or a sentence why there is none. Agents with one run id belong to one job, and any of them will do.
struct Choice {
  const agent::StacksAddress* agent = nullptr;
  std::string complaint = {};
};
Choice choose_job(const std::vector<agent::StacksAddress>& agents, const std::string& job);

}  // namespace ddprun::launcher
