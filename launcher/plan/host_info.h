// What this machine says that a job's plan needs. Edge.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "agent/process/groups/numa.h"
#include "agent/process/worker_env.h"
#include "launcher/config/config.h"
#include "launcher/config/machine.h"

namespace ddprun::launcher {

struct HostInfo {
  std::string name;                                             // this machine's
  std::string interface_address;                                // of --interface, if given
  agent::Environment environment;                               // ddprun's own
  std::string python_folder;                                    // has the package ddprun for workers; empty: not found
  std::vector<agent::Binding> bindings;                         // by local rank, if --numa-binding asks for them
  std::vector<rendezvous::Locality> whose_meeting_places = {};  // for several nodes
  bool named_is_elsewhere = false;       // the host named for the store of a single node is none of this machine's
  bool local_addr_is_elsewhere = false;  // of several nodes
  bool loopback_is_up = true;
  Places places = {};       // places_of() the Config
  std::string run_id = {};  // of a job that has none, and needs one of its own
};

// The host that a job of one node was given for its store, and the option; empty: none.
std::pair<std::string, const char*> named_host(const Config& config, const Places& places);

// A fresh name for a job that has none. Throws Error.
std::string random_run_id();

// `to_run`: else the plan is only shown, and no name of a job of several nodes is looked up. Throws UsageError.
HostInfo host_info(const Config& config, const Machine& machine, bool to_run);

}  // namespace ddprun::launcher
