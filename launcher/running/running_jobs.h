// The jobs that run on this machine: their agents, found by their sockets, and what they answer.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/status/agent_socket.h"

namespace ddprun::launcher {

// Whose an agent is, and which process, the kernel says: a name may be anybody's.
struct RunningAgent {
  agent::AgentAddress address = {};
  uid_t user = 0;
  pid_t process = 0;    // 0: outside of our pid namespace
  bool accepts = true;  // false: it takes no connection now, so all that is known is that such a process runs
};

// Of this user; root sees all. Waits for none of them.
std::vector<RunningAgent> own_agents();

// The agent to ask, or a sentence why there is none. Agents with one user and run id belong to one job, and any of them
// will do. `job`: a run id or its beginning, or the process id of an agent or of ddprun on this machine; empty: the
// only job. The asker's own jobs go before those of others, which only root sees. To act, a job without a name has to
// be the asker's own, and one that accepts nobody counts as well.
enum class Purpose { look, act };
struct Choice {
  const RunningAgent* agent = nullptr;
  std::string complaint = {};
};
Choice choose_job(const std::vector<RunningAgent>& agents, const std::string& job, Purpose purpose = Purpose::look,
                  uid_t asker = geteuid());
// The run ids, each once, as they may be printed.
std::vector<std::string> job_ids(const std::vector<RunningAgent>& agents);
// When it was started, in milliseconds since 1970; 0: it has ended, or cannot be seen.
std::int64_t started_ms(const RunningAgent& agent);
// The agent that `process` has started, itself or by others; null: none.
const RunningAgent* agent_below(const std::vector<RunningAgent>& agents, pid_t process);

// The whole answer to a line (kAskStatus); empty: the job has ended meanwhile. Throws Error if the agent cannot be
// reached or takes longer than `limit_seconds`.
std::string ask(const RunningAgent& agent, const std::string& request, int limit_seconds);

}  // namespace ddprun::launcher
