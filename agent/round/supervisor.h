// Decides what one agent does about its own workers: start, signal, rejoin, give up.
//
// A value, not a service: it owns no clock, process or socket. Give it every event in the order in which it happened;
// carry out the actions it returns, in order. Equal events give equal actions, so a log replays a run.
//
// The coordinator decides whether a failure means another round or the end: the supervisor reports it, stops the other
// workers at once, and waits for the answer. Without contact to the coordinator it kills its workers in time for others
// to take their ranks: the one path without grace. Not thread-safe: only the agent's event loop calls it. A worker's
// failure is an event, never an exception.
#pragma once
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "agent/round/events.h"
#include "agent/round/stop_policy.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

class Supervisor {
 public:
  explicit Supervisor(const StopPolicy& policy);
  // `now` never goes back. An empty answer means "wait". After Finish every answer is empty.
  std::vector<Action> on(const Event& event, TimePoint now);
  // When Tick is due; nothing is polled.
  std::optional<TimePoint> next_deadline() const;
  // The round whose workers may still run. An agent that reconnects to a coordinator reports it.
  std::optional<int> round_with_workers() const;
  std::optional<int> running_round() const;  // the round that runs and has not been ended
  // Only workers that SIGKILL does not end are left.
  bool held_by_kernel() const;
  // For logs and the table of states: "running", ...
  std::string state_name() const;

 private:
  struct Waiting {};  // no workers, the coordinator knows
  struct Seated {     // confirmed; other nodes may not have confirmed yet
    rendezvous::Seat seat;
  };
  struct Running {
    int round = 0;
    int workers = 0;
    int started = 0;
    int succeeded = 0;
    std::set<int> alive;  // local ranks
    std::optional<TimePoint> peers_deadline;
  };
  struct Undecided {};  // a failure is reported; the coordinator has not answered
  struct Regroup {};
  struct End {
    rendezvous::Outcome outcome;
  };
  using Next = std::variant<Undecided, Regroup, End>;
  struct Stopping {
    int round = 0;
    std::set<int> alive;
    TimePoint deadline;
    TimePoint notice_at;
    std::optional<TimePoint> term_at = {};  // they have got SIGINT: when SIGTERM follows
    bool to_save = false;                   // they were asked to save, not only to leave
    bool killed = false;                    // SIGKILL is sent; `deadline` is the kernel's
    bool held = false;                      // it missed that deadline; `deadline` is the next notice's
    Next next;
  };
  struct Sweeping {  // no workers, but perhaps descendants of theirs
    int round = 0;
    TimePoint deadline;
    Next next;
  };
  struct Stopped {};  // no workers; the coordinator has not answered yet
  struct Over {};

  struct HeldReport {  // of a failure that may be a preemption's
    ReportFailure report;
    TimePoint until;
  };

  using Actions = std::vector<Action>;
  Actions decide_in_state(const Event& event, TimePoint now);
  Actions report_held(const Event& event, TimePoint now);
  Actions take(const rendezvous::Seat& seat);
  Actions start(const rendezvous::Seat& seat);
  Actions worker_started(Running& run, const WorkerStarted& event);
  Actions worker_dying(const Running& run, const WorkerDying& event, TimePoint now);
  Actions worker_exited(Running& run, const WorkerExited& event, TimePoint now);
  Actions worker_ended_well(Running& run, TimePoint now);
  Actions peers_overdue(const Running& run, TimePoint now);
  Actions failed(const Running& run, int local_rank, const rendezvous::ExitStatus& status, TimePoint now);
  Actions interrupted(const Running& run, const Signalled& event, TimePoint now);
  bool says_preempted(const rendezvous::ExitStatus& status) const;
  Actions stop_running(const Running& run, Action request, Next next, TimePoint now, SignalWorkers first = {SIGTERM});

  Actions worker_exited(Stopping& stop, const WorkerExited& event, TimePoint now);
  Actions interrupted(Stopping& stop, const Signalled& event, TimePoint now);
  static void decide(Next& next, Next what);
  Actions decided(Stopping& stop, Next next, TimePoint now);
  Actions tick(Stopping& stop, TimePoint now);
  Actions kill(Stopping& stop, TimePoint now);
  Actions survived(Stopping& stop, TimePoint now);
  Actions isolated(const Running& run, TimePoint now);
  Actions isolated(Stopping& stop, TimePoint now);

  Actions sweep(int round, Next next, TimePoint now);
  Actions tick(const Sweeping& sweep, TimePoint now);
  Actions after_sweep(const Next& next);
  Actions rejoin();
  Actions finish(const rendezvous::Outcome& outcome);

  StopPolicy policy_;
  bool interrupted_ = false;
  std::set<int> saved_;  // of the last round: ended with the preemption's code, or with 0 before they were asked to
  std::optional<HeldReport> held_report_;
  std::variant<Waiting, Seated, Running, Stopping, Sweeping, Stopped, Over> state_;
};

}  // namespace ddprun::agent
