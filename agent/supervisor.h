// Decides what one agent does about its own workers: start, signal, rejoin, give up.
//
// A value, not a service: it owns no clock, process or socket. Give it every event in the order in which it happened;
// carry out the actions it returns, in order. Equal events give equal actions, so a log replays a run.
//
// Whether a failure means another round or the end is the coordinator's to decide: the supervisor reports it, stops the
// other workers at once, and waits for the answer. Not thread-safe: only the agent's event loop calls it. A worker's
// failure is an event, never an exception.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "agent/events.h"
#include "rendezvous/round.h"
#include "rendezvous/time.h"

namespace ddprun {

struct StopPolicy {
  // How long a worker may take to leave after SIGTERM. Longer lets it finish a snapshot; shorter restarts sooner.
  Duration stop_grace = std::chrono::seconds(25);
  // How long the kernel may take to end a worker after SIGKILL (a driver may hold it) before we go on without it.
  Duration kill_limit = std::chrono::seconds(10);
};

class Supervisor {
 public:
  Supervisor(NodeId self, const StopPolicy& policy);
  // `now` never goes back. An empty answer means "wait". After Finish every answer is empty.
  std::vector<Action> on(const Event& event, TimePoint now);
  // When Tick is due; nothing is polled.
  std::optional<TimePoint> next_deadline() const;
  // For logs and the table of states: "running", ...
  std::string state_name() const;

 private:
  struct Waiting {};  // no workers, the coordinator knows
  struct Running {
    int round = 0;
    int workers = 0;
    int started = 0;
    int succeeded = 0;
    std::set<int> alive;  // local ranks
  };
  struct Undecided {};  // a failure is reported, the coordinator has not answered
  struct Regroup {};
  struct End {
    Outcome outcome;
  };
  using Next = std::variant<Undecided, Regroup, End>;
  struct Stopping {
    int round = 0;
    std::set<int> alive;
    TimePoint deadline;
    bool killed = false;  // SIGKILL is out, `deadline` is the kernel's
    Next next;
  };
  struct Stopped {};  // no workers, the coordinator's answer is still out
  struct Over {};

  std::vector<Action> start(const Round& round);
  std::vector<Action> worker_started(Running& run, const WorkerStarted& event);
  std::vector<Action> worker_exited(Running& run, const WorkerExited& event, TimePoint now);
  std::vector<Action> worker_exited(Stopping& stop, const WorkerExited& event);
  std::vector<Action> stop_running(const Running& run, Next next, TimePoint now);
  std::vector<Action> interrupted(Stopping& stop, const Signalled& event, TimePoint now);
  std::vector<Action> decided(Stopping& stop, Next next);
  std::vector<Action> overdue(Stopping& stop, TimePoint now);
  std::vector<Action> after_stop(int round, const Next& next);
  std::vector<Action> finish(const Outcome& outcome);
  std::vector<Action> kill(Stopping& stop, TimePoint now);

  NodeId self_;
  StopPolicy policy_;
  bool interrupted_ = false;
  std::variant<Waiting, Running, Stopping, Stopped, Over> state_;
};

}  // namespace ddprun
