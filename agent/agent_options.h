// All options of an agent.
#pragma once
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/coordination.h"
#include "agent/desk/desk.h"
#include "agent/hang/hang_limits.h"
#include "agent/job_state.h"
#include "agent/logs/job_event.h"
#include "agent/logs/log_options.h"
#include "agent/logs/own_log.h"
#include "agent/machine/machine_limits.h"
#include "agent/machine/preemption_probe.h"
#include "agent/push/push_options.h"
#include "agent/reporter.h"
#include "agent/supervisor.h"
#include "agent/worker_group.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/token.h"

namespace ddprun::agent {

// Who gets SIGTERM first: the rank process alone, or its process group, for a rank that a shell or wrapper starts.
enum class StopScope { rank, group };

// How workers are forked from a template (--prefork).
struct Prefork {
  bool python = false;       // the program is a script, and command.program its interpreter
  std::string imports = {};  // TemplateCommand::imports
  std::string learned = {};  // TemplateCommand::learned
};

struct AgentOptions {
  int workers = 1;
  int workers_most = 1;  // that users may have it start while it runs (ddprun ctl add-workers)
  std::string role = "default";
  WorkerCommand command;
  std::optional<Prefork> prefork = {};
  std::uint64_t memory_snapshots = 0;  // bytes for them (SnapshotMemory); 0: none
  StopPolicy stop;
  StopScope stop_scope = StopScope::rank;
  // These end the job gracefully; SIGUSR1, SIGUSR2 and any of these four not listed are forwarded to the workers.
  std::vector<int> ending_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::vector<int> preempt_signals = {};     // those of them that are a scheduler's early notice, handled as SIGTERM
  std::optional<Duration> stuck_limit = {};  // a worker in uninterruptible sleep for this long has failed
  std::optional<ProbeTarget> probe = {};     // says that this machine is being preempted
  std::optional<Duration> max_run = {};      // after this time the job ends as if SIGTERM had come
  std::string master_host;                   // what workers are told; empty: the address by which other nodes reach us
  std::string store_address;                 // where the store listens; empty: on all addresses
  std::uint16_t master_port = 0;             // 0: a free one, new for every round
  rendezvous::PortRange store_ports = {};    // the range it is taken from
  LogOptions logs;
  bool named = false;     // the user chose the run id: an earlier run of the job may have left processes
  int keeper_pidfd = -1;  // readable once the keeper is dead
  LogLevel log_level = LogLevel::warning;
  std::string event_log = "null";              // event_log.h
  std::optional<std::string> timer_file = {};  // enables torchrun's file timers; empty text: we choose the path
  bool cgroup = false;                         // run the workers in a control group, if we can create one
  bool prints_end = true;                      // a failed job's report, on stderr
  std::string own_error_file = {};             // gets the job's error; empty: no file
  std::string rdzv_backend = "static";         // the name in events
  std::optional<int> requeues = {};            // how often the scheduler has started the job again: for events
  std::optional<Meeting> meeting = {};         // with other nodes
  std::optional<int> requested_rank = {};      // the requested node rank
  std::uint64_t store_bytes_max = 0;           // limit for its keys and queues; 0: no limit
  bool store_for_any_user = false;             // of this machine; otherwise only our own user and root
  bool store_proxy = false;                    // workers reach the store through their own agent, on loopback only
  Duration join_timeout = std::chrono::seconds(600);
  JobState::Files state = {};
  MachineLimits machine_limits = {};
  HangLimits hang_limits = {};
  bool allow_chaos = false;  // users may have the workers suffer faults
  bool watch_stragglers = true;
  std::optional<MetricsOptions> metrics = {};
  std::optional<OtlpOptions> otlp = {};
  std::optional<KubeflowOptions> kubeflow = {};
  std::string version = {};                            // ddprun's
  std::vector<std::string> folders = {};               // that the job writes to
  std::string health_check = {};                       // a shell command; empty: none
  std::vector<rendezvous::FailureRule> rules = {};     // for failures of our workers
  Duration progress_after = std::chrono::seconds(10);  // RestartPolicy::progress_after
};

// Derived for other parts. signals_of: the signals that the agent handles, without SIGHUP under nohup.
std::set<int> signals_of(const AgentOptions& options);
ReporterOptions reporter_options(const AgentOptions& options);
EventJob event_job(const AgentOptions& options);
DeskOptions desk_options(const AgentOptions& options);

}  // namespace ddprun::agent
