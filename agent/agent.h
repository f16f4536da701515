// One per node: turns signals, exits, timers and the coordinator's orders into the supervisor's events, and carries out
// its actions. It decides nothing itself.
//
// One thread runs the loop. The store and the log pipes have threads of their own, so that neither a slow client nor a
// slow console can hold up the supervisor.
#pragma once
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "agent/channel/file_timer.h"
#include "agent/coordination.h"
#include "agent/events.h"
#include "agent/job_events.h"
#include "agent/logs/event_log.h"
#include "agent/logs/log_layout.h"
#include "agent/logs/log_pipe.h"
#include "agent/logs/own_log.h"
#include "agent/process/cgroup.h"
#include "agent/process/children.h"
#include "agent/process/stuck_watch.h"
#include "agent/reporter.h"
#include "agent/signal_queue.h"
#include "agent/store_reach.h"
#include "agent/supervisor.h"
#include "agent/waiting_line.h"
#include "agent/worker_group.h"
#include "rendezvous/store/server.h"

namespace ddprun {

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
  PortRange store_ports = {};                // of those it may be
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

struct JobResult {
  Outcome outcome;
  bool saved = false;       // every worker of the last round here told of a snapshot that holds all it had done
  bool finished = false;    // every one of them told that it had done all there was to do, and exited with 0
  std::string report = {};  // of a worker's failure, as it was printed; empty: none
};

class Agent {
 public:
  // Throws Error where the store's or the coordinator's port, the log folder or the event log cannot be had.
  Agent(AgentOptions options, const RoundPolicy& policy);
  // Runs the job to its end. Nothing it started is left when it returns.
  JobResult run();

 private:
  void end_leftovers_of_earlier_runs();
  void make_cgroup();
  void on_signal(int signal);
  void resize_terminals();
  void watch_keeper();
  void collect_workers();
  void limit_run();
  void arm_timer();

  std::unique_ptr<Coordination> coordination();
  void on_connected();
  void on_disconnected(const std::string& why, bool certain);
  void begin_anew(const std::string& why);
  void meet_anew();
  void tell_of_signal();
  void tell_of_wait(const std::optional<Attendance>& attendance);
  void warn_where_alone();
  void on_message(const ToAgent& message);
  void take_seat(const Seat& seat);
  void bring_store_near();
  void tell_of_lost_store(int round, const std::string& why);
  void close_store();
  Seat as_workers_see(const Seat& seat);
  void say_ready();
  void check_reach();
  NodeOffer offer() const;

  void dispatch(const Event& event);
  void execute(const Action& action);
  void start_workers(const Seat& seat);
  std::vector<pid_t> living_workers() const;
  void watch_for_stuck_workers(StuckWatch watch, int round);
  void offer_timers();
  void on_timer_expiry(const TimerExpiry& expiry);
  void report_failure(const ReportFailure& report);
  void signal_workers(int signal);
  void begin_sweep(int round);
  void sweep(int round);
  void finish(const Outcome& outcome);
  bool workers_finished();
  void on_job_end(const Outcome& outcome);
  void send_words(const Outcome& outcome);
  void tell_why(const Outcome& outcome);
  void end(const Outcome& outcome);
  void wait_for_others();

  template <class What>  // Event or Action
  void log(const char* kind, const What& what);

  AgentOptions options_;
  RoundPolicy policy_;
  Supervisor supervisor_;
  asio::io_context io_;
  SignalQueue signals_;
  asio::steady_timer timer_, run_limit_, words_due_, sweep_timer_, stuck_timer_, store_lost_;
  asio::posix::stream_descriptor keeper_;
  LogLayout layout_;
  LogPipes pipes_;
  std::optional<Cgroup> cgroup_;
  ChildSweep sweep_;
  int sweeping_ = 0;  // the round whose leftovers it ends; 0: none
  WorkerGroup workers_;
  Reporter reporter_;
  WaitingLine wait_;
  OwnLog log_;
  EventLog event_log_;
  JobEvents job_events_;
  std::unique_ptr<FileTimer> file_timer_;  // of the current round
  std::unique_ptr<Server> store_;          // of the current or the coming round
  std::uint16_t last_store_port_ = 0;
  std::unique_ptr<StoreReach> reach_;  // where the workers are told a name or address of ours
  std::unique_ptr<StoreProxy> proxy_;  // to the round's store on another node
  std::unique_ptr<StoreDialer> dialer_;
  std::unique_ptr<Coordination> coordination_;
  TimePoint alone_since_ = Clock::now();  // no coordinator in reach
  std::string job_is_over_;               // why the job cannot go on here; this node looks whether it begins anew
  bool gives_up_ = false;                 // it still ends its workers
  bool warned_where_alone_ = false;
  int signal_ = 0;                            // somebody wants ddprun to end
  bool hurried_ = false;                      // somebody wants that now
  bool words_sent_ = false;                   // of a failure here
  std::optional<std::string> failure_words_;  // of the node whose worker failed, as the coordinator hands them on
  std::deque<Event> events_;
  bool handling_ = false;
  std::optional<Seat> seat_;  // of the current round
  std::optional<Failure> last_failure_;
  JobResult result_;
};

}  // namespace ddprun
