// Config → what the agent needs. Pure: what the world says comes in as arguments.
#pragma once
#include <string>

#include "agent/agent.h"
#include "launcher/config.h"
#include "launcher/machine.h"
#include "launcher/program.h"
#include "rendezvous/peer/credentials.h"

namespace ddprun::launcher {

// What a job finds around it.
struct Place {
  std::string host;                                          // this machine's name
  std::string interface_address;                             // of --interface, where that is given
  agent::Environment environment;                            // ddprun's own
  std::vector<agent::Binding> bindings;                      // by local rank, where --numa-binding asks for them
  std::vector<rendezvous::Whose> whose_meeting_places = {};  // where several nodes meet
};

// How the nodes of the job prove themselves to each other.
rendezvous::Credentials credentials(const Config& config);

// All but what belongs to one process alone: cookie and keeper. Throws UsageError where the values do not fit the
// place.
rendezvous::RoundPolicy round_policy(const Config& config);
agent::AgentOptions job_options(const Config& config, const Machine& machine, const Program& program,
                                const std::string& run_id, const Place& place);

}  // namespace ddprun::launcher
