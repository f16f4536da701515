// What an agent is told to do, whole.
#pragma once
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/coordination.h"
#include "agent/logs/job_event.h"
#include "agent/logs/log_options.h"
#include "agent/logs/own_log.h"
#include "agent/reporter.h"
#include "agent/supervisor.h"
#include "agent/worker_group.h"
#include "rendezvous/peer/listen_socket.h"

namespace ddprun::agent {

// Who gets the polite signal: the rank process alone, or its process group, where a shell or wrapper stands before it.
enum class StopScope { rank, group };

struct AgentOptions {
  int workers = 1;
  std::string role = "default";
  WorkerCommand command;
  StopPolicy stop;
  StopScope stop_scope = StopScope::rank;
  // End the job politely; SIGUSR1, SIGUSR2 and the rest of these four pass through to the workers.
  std::vector<int> ending_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::vector<int> preempt_signals = {};     // of those: the scheduler's early notice, as good as SIGTERM
  std::optional<Duration> stuck_limit = {};  // a worker in uninterruptible sleep for so long has failed
  std::optional<Duration> max_run = {};      // after so long the job ends as if SIGTERM had come
  std::string master_host;                   // what workers are told; empty: the address by which other nodes reach us
  std::string store_address;                 // where the store listens; empty: on all addresses
  std::uint16_t master_port = 0;             // 0: a fresh free one for every round
  rendezvous::PortRange store_ports = {};    // of those it may be
  LogOptions logs;
  bool named = false;     // the run id is the person's: an earlier run of the job may have left something
  int keeper_pidfd = -1;  // readable once the keeper is dead
  LogLevel log_level = LogLevel::warning;
  std::string event_log = "null";              // event_log.h
  std::optional<std::string> timer_file = {};  // torchrun's file timers are on; empty text: a path of our choice
  bool cgroup = false;                         // keep the workers in a control group, where one may be made
  std::string own_error_file = {};             // gets the job's error; empty: none
  std::string rdzv_backend = "static";         // as events name it
  std::optional<Meeting> meeting = {};         // with other nodes
  std::optional<int> wished_rank = {};         // among them
  std::uint64_t store_bytes_max = 0;           // of its keys and queues; 0: any
  bool store_for_any_user = false;             // of this machine; else for our own and root
  bool store_proxy = false;                    // workers reach the store through their own agent, on loopback only
  Duration join_timeout = std::chrono::seconds(600);
};

// What other parts take of them. The signals that the agent acts on: SIGHUP is none under nohup.
std::set<int> signals_of(const AgentOptions& options);
ReporterOptions reporter_options(const AgentOptions& options);
EventJob event_job(const AgentOptions& options);

}  // namespace ddprun::agent
