// One per node: turns signals, exits, timers and the coordinator's orders into the supervisor's events, and carries out
// its actions. It decides nothing itself.
//
// One thread runs the loop. The store and the log pipes have threads of their own, so that neither a slow client nor a
// slow console delays the supervisor.
#pragma once
#include <deque>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/agent_options.h"
#include "agent/contact.h"
#include "agent/events.h"
#include "agent/job_ending.h"
#include "agent/job_events.h"
#include "agent/keeper_death.h"
#include "agent/logs/event_log.h"
#include "agent/logs/log_layout.h"
#include "agent/logs/log_pipe.h"
#include "agent/logs/own_log.h"
#include "agent/process/cgroup.h"
#include "agent/reporter.h"
#include "agent/round_store.h"
#include "agent/round_sweep.h"
#include "agent/round_timers.h"
#include "agent/signal_queue.h"
#include "agent/supervisor.h"
#include "agent/worker_group.h"

namespace ddprun::agent {

struct JobResult {
  rendezvous::Outcome outcome;
  bool saved = false;       // every worker of the last round here reported a snapshot that contains all its work
  bool finished = false;    // every one of them reported that all its work is done, and exited with 0
  std::string report = {};  // of a worker's failure, as printed; empty: no worker failed
};

class Agent {
 public:
  // Throws Error if the store's or the coordinator's port, the log folder or the event log cannot be opened.
  Agent(AgentOptions options, const rendezvous::RoundPolicy& policy);
  // Runs the job to its end. Nothing it started is left when it returns.
  JobResult run();

 private:
  void end_leftovers_of_earlier_runs();
  void make_cgroup();
  void on_signal(int signal);
  void resize_terminals();
  void collect_workers();
  void limit_run();
  void arm_timer();

  RoundTimers::Hooks timer_hooks();
  RoundStore::Hooks store_hooks();
  void say_what_is_here();
  void on_message(const rendezvous::ToAgent& message);
  void take_seat(const rendezvous::Seat& seat);
  void say_ready();
  rendezvous::NodeId node() const { return contact_.coordination().node(); }
  rendezvous::NodeOffer offer() const;

  void dispatch(const Event& event);
  void execute(const Action& action);
  void start_workers(const rendezvous::Seat& seat);
  void on_timer_expiry(int local_rank, const ExpiredTimer& timer);
  void report_failure(const ReportFailure& report);
  void signal_workers(int signal);
  void finish(const rendezvous::Outcome& outcome);
  void end();

  template <class What>  // Event or Action
  void log(const char* kind, const What& what);

  AgentOptions options_;
  Supervisor supervisor_;
  asio::io_context io_;
  SignalQueue signals_;
  asio::steady_timer timer_, run_limit_;
  KeeperDeath keeper_;
  LogLayout layout_;
  LogPipes pipes_;
  std::optional<Cgroup> cgroup_;
  WorkerGroup workers_;
  Reporter reporter_;
  OwnLog log_;
  EventLog event_log_;
  JobEvents job_events_;
  RoundSweep sweep_;
  RoundTimers timers_;
  RoundStore store_;
  Contact contact_;
  JobEnding ending_;
  bool hurried_ = false;  // a signal asked ddprun to end
  std::deque<Event> events_;
  bool handling_ = false;
  std::optional<rendezvous::Seat> seat_;  // of the current round
  std::optional<rendezvous::Failure> last_failure_;
  JobResult result_;
};

}  // namespace ddprun::agent
