// One per node: turns signals, exits, timers and the coordinator's orders into the supervisor's events, and carries out
// its actions. It decides nothing itself.
//
// One thread runs the loop. The store and the log pipes have threads of their own, so that neither a slow client nor a
// slow console delays the supervisor.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/agent_options.h"
#include "agent/contact.h"
#include "agent/desk/desk.h"
#include "agent/desk/node_view.h"
#include "agent/events.h"
#include "agent/faults/faults.h"
#include "agent/hang/pace_watch.h"
#include "agent/hang/round_account.h"
#include "agent/hang/worker_watch.h"
#include "agent/job_ending.h"
#include "agent/job_events.h"
#include "agent/job_state.h"
#include "agent/keeper_death.h"
#include "agent/logs/event_log.h"
#include "agent/logs/log_layout.h"
#include "agent/logs/log_pipe.h"
#include "agent/logs/own_log.h"
#include "agent/logs/round_output.h"
#include "agent/machine/machine_watch.h"
#include "agent/node_memory.h"
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
  WorkerChannels::Unsaved unsaved = {};  // of the workers here; nothing if none ran
  bool finished = false;                 // every one of them reported that all its work is done, and exited with 0
  std::string report = {};               // of a worker's failure, as printed; empty: no worker failed
};

class Agent {
 public:
  // Throws Error if the store's or the coordinator's port, the log folder or the event log cannot be opened.
  Agent(AgentOptions options, const rendezvous::RoundPolicy& policy);
  // Runs the job to its end. Nothing it started is left when it returns.
  JobResult run();

 private:
  RoundAccount::Hooks account_hooks();
  void close_account();  // when the round ends here, for whatever reason; a second call does nothing
  void end_leftovers_of_earlier_runs();
  void make_cgroup();
  void ask_to_leave();
  void stop_parking();
  void pass_memory();
  void change_workers(int workers);
  NodeMemory::Hooks memory_hooks();
  std::function<void(rendezvous::ReleasedPeer)> caller_hook();
  void on_signal(int signal);
  void on_notice(int local_rank, int signal);
  void resize_terminals();
  void collect_workers();
  void limit_run();
  void start_template();
  void on_template();
  void arm_timer();

  RoundTimers::Hooks timer_hooks();
  std::function<void(const rendezvous::LedgerRecord&, const rendezvous::Outcome*)> ledger_hook();
  RoundStore::Hooks store_hooks();
  void report_state();
  void on_message(const rendezvous::ToAgent& message);
  void take_seat(const rendezvous::Seat& seat);
  void send_ready();
  void offer_node();
  std::string unfit() const;  // why this node can be in no round; empty: it can
  MachineOptions machine_options() const;
  MachineWatch::Hooks machine_hooks();
  void on_health();
  rendezvous::NodeId node() const { return contact_.coordination().node(); }
  rendezvous::NodeOffer offer() const;

  void dispatch(const Event& event);
  void execute(const Action& action);
  void sweep_leftovers(int round);
  void report_held(const std::vector<int>& local_ranks);
  void start_workers(const rendezvous::Seat& seat);
  RoundOutput::Hooks output_hooks();
  WorkersSeen workers_seen();
  WorkerWatch::Hooks watch_hooks();
  void looked(const std::map<int, WorkerSight>& seen);
  void keep_stacks(const std::vector<int>& local_ranks, const std::vector<ProcessStacks>& stacks);
  NodeView::Hooks view_hooks();
  Desk::Hooks desk_hooks();
  void suspend_workers(const rendezvous::SuspendWorkers& message);
  void take_snapshot(const rendezvous::TakeSnapshot& message);
  Faults::Hooks fault_hooks();
  void inject(const rendezvous::InjectFault& message);
  void announce_metrics();
  rendezvous::NodeReport report();
  void take_asked_stacks(const rendezvous::TakeStacks& asked);
  PaceWatch::Hooks pace_hooks();
  void report_pace(const rendezvous::ReportPace& report);
  int still_running(int local_rank) const;  // it, or another worker
  void on_timer_expiry(int local_rank, const ExpiredTimer& timer);
  void report_failure(const ReportFailure& report);
  bool needs_last_lines(const rendezvous::ExitStatus& status) const;
  bool has_lived() const;  // the round, long enough to count as progress
  std::optional<rendezvous::RuleMatch> rule_for(const rendezvous::Failure& failure);
  void signal_workers(int signal);
  void send_signal(int signal);
  void finish(const Finish& finish);
  void report_lost();
  void end();

  template <class What>  // Event or Action
  void log(const char* kind, const What& what);

  AgentOptions options_;
  const bool in_foreground_;  // a single worker gets the terminal's signals itself
  Supervisor supervisor_;
  asio::io_context io_;
  SignalQueue signals_;
  asio::steady_timer timer_, run_limit_;
  MachineWatch machine_;
  std::optional<WorkerTemplate> template_;
  KeeperDeath keeper_;
  LogLayout layout_;
  LogPipes pipes_;
  std::optional<Cgroup> cgroup_;
  asio::steady_timer park_timer_{io_};
  Faults faults_;
  bool no_round_follows_ = false;
  WorkerGroup workers_;
  Reporter reporter_;
  OwnLog log_;
  EventLog event_log_;
  JobEvents job_events_;
  RoundSweep sweep_;
  RoundTimers timers_;
  RoundStore store_;
  std::optional<JobState> state_;
  Contact contact_;
  NodeMemory memory_;
  JobEnding ending_;
  bool awaits_health_ = false, awaits_template_ = false;  // the node is offered when the check has ended
  bool end_requested_ = false;                            // a signal asked ddprun to end
  bool succeeded_ = false;                                // the job has ended well
  bool finished_ = false;                                 // it has ended, and so have the workers here
  std::deque<Event> events_;
  bool handling_ = false;
  TimePoint event_at_ = {};                     // when the event that is being handled was
  std::optional<rendezvous::Seat> seat_;        // of the current round
  bool round_has_workers_ = false;              // they run, or have run in the current round
  bool end_was_planned_ = false;                // of the last round: its workers were asked to save
  TimePoint stopping_since_ = {};               // when its workers got SIGTERM
  bool grace_is_over_ = false;                  // and those that were left SIGKILL
  std::optional<TimePoint> workers_run_since_;  // all of the round's, here
  RoundOutput output_;
  WorkerWatch watch_;
  PaceWatch pace_;
  RoundAccount account_;
  NodeView view_;
  Desk desk_;
  std::optional<HungWorker> hung_;  // in this round
  std::vector<int> held_ranks_;     // local ranks that SIGKILL has not ended; reported
  std::optional<rendezvous::Failure> last_failure_;
  JobResult result_;
};

}  // namespace ddprun::agent
