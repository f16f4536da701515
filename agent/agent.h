// One per node: turns signals, exits, timers and the coordinator's orders into the supervisor's events, and carries out
// its actions. It decides nothing itself: it knows which event goes to which part.
//
// One thread runs the loop. The store, the log pipes, files and the link to the coordinator have threads of their own,
// so that no slow client, console, disk or network delays the supervisor, and nothing that delays it loses the node.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "agent/agent_options.h"
#include "agent/desk/desk.h"
#include "agent/faults/faults.h"
#include "agent/hang/round_watches.h"
#include "agent/link/contact.h"
#include "agent/logs/log_layout.h"
#include "agent/logs/log_pipe.h"
#include "agent/machine/machine_watch.h"
#include "agent/round/node_round.h"
#include "agent/round/outside.h"
#include "agent/round/supervision.h"
#include "agent/tell/tell.h"

namespace ddprun::agent {

struct JobResult {
  rendezvous::Outcome outcome;
  WorkerChannels::Unsaved unsaved = {};       // of the workers here; nothing if none ran
  bool finished = false;                      // every one of them reported that all its work is done, and exited with 0
  std::string report = {};                    // of a worker's failure, as printed; empty: no worker failed
  std::optional<rendezvous::Seat> seat = {};  // of the last round in which this node had one
};

class Agent {
 public:
  // Throws Error if the store's or the coordinator's port, the log folder or the event log cannot be opened.
  Agent(AgentOptions options, const rendezvous::RoundPolicy& policy);
  // Runs the job to its end. Nothing it started is left when it returns.
  JobResult run();

 private:
  // What each part calls (agent_hooks.cpp).
  Outside::Hooks outside_hooks();
  NodeRound::Hooks round_hooks();
  MachineWatch::Hooks machine_hooks();
  Supervision::Hooks supervision_hooks();
  RoundWatches::Hooks watch_hooks();
  Contact::Hooks contact_hooks();
  Faults::Hooks fault_hooks();
  Desk::Hooks desk_hooks();
  std::optional<std::vector<OutputEnd>> passed_ends(int round, const rendezvous::RankView& rank) const;
  std::optional<int> running_round() const { return supervision_.now().running_round(); }
  rendezvous::NodeId node() const { return contact_.coordination().node(); }
  void send(const rendezvous::FromAgent& message) { contact_.send(message); }

  // From the outside and from the machine.
  void on_signal(int signal, bool from_terminal);
  void on_notice(int local_rank, int signal);
  void on_preempted(const std::string& why);
  void on_health();

  // Between two rounds.
  void on_connected();
  void send_ready();
  void offer_node();
  void on_template();
  rendezvous::NodeOffer offer() const;
  std::string unfit() const;  // why this node can be in no round; empty: it can

  // Orders, events and actions.
  void on_message(const rendezvous::ToAgent& message);
  void end_round(const rendezvous::EndRound& order);
  void end_job(const rendezvous::EndJob& order);
  void dispatch(const Event& event) { supervision_.dispatch(event); }
  void execute(const Action& action);
  void take_seat(const rendezvous::Seat& seat);
  void start_workers(const rendezvous::Seat& seat);
  bool on_started(int local_rank, int error);
  void collect_workers();
  bool is_ctrl_c(const WorkerEnd& end) const;
  void on_hung(const HungWorker& worker);
  void on_output(const OutputWatch::Finding& found);
  void report_failure(const ReportFailure& report);
  RoundSoFar round_so_far();
  void report_interrupted(int signal);
  void spare_memory(const rendezvous::Failure& failure, bool progressed);
  void report_held(const std::vector<int>& local_ranks);
  void signal_workers(const SignalWorkers& order);
  void send_signal(const SignalWorkers& order);
  void close_account();  // when the round ends here, for whatever reason; a second call does nothing
  void finish(const Finish& finish);
  void report_lost(bool interrupted);
  void end();
  void await_files();

  // What is awaited before the node is offered, and how the job ends.
  struct Awaits {
    bool health = false, the_template = false;
  };
  struct End {
    bool requested = false;  // a signal asked ddprun to end
    bool well = false;       // the job has ended well
    bool here = false;       // it has ended, however, and so have the workers here
    JobResult result = {};
  };

  AgentOptions options_;
  asio::io_context io_;
  Outside outside_;
  MachineWatch machine_;
  LogLayout layout_;
  LogPipes pipes_;
  NodeRound round_;
  Tell tell_;
  Supervision supervision_;
  Contact contact_;
  RoundWatches watches_;
  Faults faults_;
  Desk desk_;
  Awaits awaits_;
  End end_;
};

}  // namespace ddprun::agent
