// What a node's rounds are run with.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/round/supervisor.h"
#include "agent/round/worker_group.h"
#include "rendezvous/coordination/round/failure_rules.h"
#include "rendezvous/peer/listen_socket.h"

namespace ddprun::agent {

// How workers are forked from a template (--prefork).
struct Prefork {
  bool python = false;       // the program is a script, and command.program its interpreter
  std::string imports = {};  // TemplateCommand::imports
  std::string learned = {};  // TemplateCommand::learned
};

struct RoundOptions {
  int workers = 1;
  WorkerCommand command;
  std::optional<Prefork> prefork = {};
  bool several_nodes = false;
  std::uint64_t memory_snapshots = 0;  // bytes for them (SnapshotMemory); 0: none
  bool cgroup = false;                 // run the workers in a control group, if we can create one
  StopPolicy stop;
  StopScope stop_scope = StopScope::automatic;
  std::optional<Duration> stuck_limit = {};    // a worker in uninterruptible sleep for this long has failed
  std::optional<std::string> timer_file = {};  // enables torchrun's file timers; empty text: we choose the path
  std::string master_host;                     // what workers are told; empty: the address by which nodes reach us
  std::string store_address;                   // where the store listens; empty: on all addresses
  std::uint16_t master_port = 0;               // 0: a free one, new for every round
  rendezvous::PortRange store_ports = {};      // the range it is taken from
  std::uint64_t store_bytes_max = 0;           // limit for its keys and queues; 0: no limit
  bool store_for_any_user = false;             // of this machine; otherwise only our own user and root
  bool store_through_agents = false;  // other nodes can reach this one's agent only, and use the store by its port
  bool store_proxy = false;           // workers reach the store through their own agent, on loopback only
  std::vector<rendezvous::FailureRule> rules = {};     // for failures of our workers
  Duration progress_after = std::chrono::seconds(10);  // RestartPolicy::progress_after
};

}  // namespace ddprun::agent
