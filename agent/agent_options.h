// All options of an agent.
#pragma once
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/desk/desk.h"
#include "agent/hang/hang_limits.h"
#include "agent/link/contact.h"
#include "agent/logs/job_event.h"
#include "agent/logs/log_options.h"
#include "agent/logs/own_log.h"
#include "agent/machine/machine_limits.h"
#include "agent/machine/preemption_probe.h"
#include "agent/push/push_options.h"
#include "agent/round/round_options.h"
#include "agent/tell/tell.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/token.h"

namespace ddprun::agent {

struct AgentOptions : RoundOptions {
  int workers_most = 1;  // that users may have it start while it runs (ddprun ctl add-workers)
  std::string role = "default";
  std::string step = {};  // NodeOffer::step
  // These end the job gracefully; SIGUSR1, SIGUSR2 and any of these four not listed are forwarded to the workers.
  std::vector<int> ending_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::vector<int> preempt_signals = {};  // those of them that are a scheduler's early notice, handled as SIGTERM
  std::optional<ProbeTarget> probe = {};  // says that this machine is being preempted
  std::optional<Duration> max_run = {};   // after this time the job ends as if SIGTERM had come
  LogOptions logs;
  bool named = false;  // the user chose the run id: an earlier run of the job may have left processes
  int keeper_fd = -1;  // readable once the keeper is dead
  LogLevel log_level = LogLevel::warning;
  std::string event_log = "null";          // event_log.h
  bool prints_end = true;                  // a failed job's report, on stderr
  std::string own_error_file = {};         // gets the job's error; empty: no file
  std::string rdzv_backend = "static";     // the name in events
  std::optional<int> requeues = {};        // how often the scheduler has started the job again: for events
  std::string command_line = {};           // as typed, for events; empty: not known
  std::optional<Meeting> meeting = {};     // with other nodes
  std::optional<int> requested_rank = {};  // the requested node rank
  Duration join_timeout = std::chrono::seconds(600);
  JobState::Files state = {};
  MachineLimits machine_limits = {};
  HangLimits hang_limits = {};
  bool allow_chaos = false;  // users may have the workers suffer faults
  bool watch_stragglers = true;
  std::optional<MetricsOptions> metrics = {};
  std::optional<OtlpOptions> otlp = {};
  std::optional<KubeflowOptions> kubeflow = {};
  std::string version = {};               // ddprun's
  std::vector<std::string> folders = {};  // that the job writes to
  std::string health_check = {};          // a shell command; empty: none
};

// Derived for other parts. signals_of: the signals that the agent handles, without SIGHUP under nohup.
std::set<int> signals_of(const AgentOptions& options);
Tell::Options tell_options(const AgentOptions& options);
DeskOptions desk_options(const AgentOptions& options);
ContactOptions contact_options(const AgentOptions& options);

}  // namespace ddprun::agent
