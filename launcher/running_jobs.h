// The jobs that run on this machine: their agents, found by their sockets, and what they answer.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "agent/status/agent_socket.h"

namespace ddprun::launcher {

// Of this user; root sees all.
std::vector<agent::AgentAddress> own_agents();

// The agent to ask, or a sentence why there is none. Agents with one run id belong to one job, and any of them will do.
// `job`: a run id or its beginning, or the process id of an agent or of ddprun on this machine; empty: the only job.
struct Choice {
  const agent::AgentAddress* agent = nullptr;
  std::string complaint = {};
};
Choice choose_job(const std::vector<agent::AgentAddress>& agents, const std::string& job);
// The run ids, each once.
std::vector<std::string> job_ids(const std::vector<agent::AgentAddress>& agents);
// When it was started, in milliseconds since 1970; 0: it has ended.
std::int64_t started_ms(const agent::AgentAddress& agent);
// The agent that `process` has started, itself or by others; null: none.
const agent::AgentAddress* agent_below(const std::vector<agent::AgentAddress>& agents, pid_t process);

// The whole answer to a line (kAskStatus); empty: the job has ended meanwhile. Throws Error if the agent cannot be
// reached or takes longer than `limit_seconds`.
std::string ask(const agent::AgentAddress& agent, const std::string& request, int limit_seconds);

}  // namespace ddprun::launcher
