// Config → what the agent needs. Pure: facts about the machine are passed in.
#pragma once
#include <string>

#include "agent/agent.h"
#include "launcher/config/config.h"
#include "launcher/config/machine.h"
#include "launcher/plan/program.h"
#include "rendezvous/peer/credentials.h"

namespace ddprun::launcher {

// The machine-dependent inputs.
struct HostInfo {
  std::string name;                                             // this machine's
  std::string interface_address;                                // of --interface, if given
  agent::Environment environment;                               // ddprun's own
  std::string python_folder;                                    // has the package ddprun for workers; empty: not found
  std::vector<agent::Binding> bindings;                         // by local rank, if --numa-binding asks for them
  std::vector<rendezvous::Locality> whose_meeting_places = {};  // for several nodes
  bool named_is_elsewhere = false;  // the host named for the store of a single node is none of this machine's
};

// A sentence where --watch cannot see the program: its Python is told to ignore PYTHONPATH, or to start without site.
// Empty: it can, as far as the command line tells.
std::string watch_problem(const Config& config, const Program& program);

// How the nodes of the job authenticate each other.
rendezvous::Credentials credentials(const Config& config);
// Whoever can reach this can join the job, a host or "its nodes". Empty: nobody else can, or the nodes authenticate.
std::string open_to(const Config& config);

// Everything except what belongs to one process: cookie and keeper. Throws UsageError if the values do not fit the
// machine.
rendezvous::RoundPolicy round_policy(const Config& config);
agent::AgentOptions job_options(const Config& config, const Machine& machine, const Program& program,
                                const std::string& run_id, const HostInfo& host);

}  // namespace ddprun::launcher
