// Config → what the agent needs. Pure: facts about the machine are passed in.
#pragma once
#include <string>

#include "agent/agent.h"
#include "launcher/config/config.h"
#include "launcher/plan/host_info.h"
#include "launcher/plan/program.h"
#include "rendezvous/peer/credentials.h"

namespace ddprun::launcher {

// How the nodes of the job authenticate each other.
rendezvous::Credentials credentials(const Config& config);
// Everything except what belongs to one process: cookie and keeper. Throws UsageError if the values do not fit the
// machine.
rendezvous::RoundPolicy round_policy(const Config& config);
agent::AgentOptions agent_options(const Config& config, const Machine& machine, const Program& program,
                                  const std::string& run_id, const HostInfo& host,
                                  const rendezvous::RoundPolicy& policy);

}  // namespace ddprun::launcher
