#include "agent/supervisor.h"

#include <csignal>
#include <utility>

#include "rendezvous/error.h"
#include "rendezvous/overloaded.h"

namespace ddprun {
namespace {

using Actions = std::vector<Action>;

Actions operator+(Actions first, Actions then) {
  for (Action& action : then) first.push_back(std::move(action));
  return first;
}

}  // namespace

Supervisor::Supervisor(NodeId self, const StopPolicy& policy) : self_(self), policy_(policy) {}

std::vector<Action> Supervisor::on(const Event& event, TimePoint now) {
  return std::visit(
      overloaded{
          [](Over&, const auto&) { return Actions{}; }, [&](Waiting&, const RoundFormed& e) { return start(e.round); },
          [&](Waiting&, const Signalled& e) { return Actions{ReportInterrupted{e.signal}}; },
          [&](Waiting&, const JobEnded& e) { return finish(e.outcome); },

          [&](Running& run, const WorkerStarted& e) { return worker_started(run, e); },
          [&](Running& run, const WorkerExited& e) { return worker_exited(run, e, now); },
          [&](Running& run, const RoundEnded& e) {
            return e.round == run.round ? stop_running(run, Regroup{}, now) : Actions{};
          },
          [&](Running& run, const JobEnded& e) { return stop_running(run, End{e.outcome}, now); },
          [&](Running& run, const Signalled& e) {
            interrupted_ = true;
            return Actions{ReportInterrupted{e.signal}} + stop_running(run, Undecided{}, now);
          },

          [&](Stopping& stop, const WorkerExited& e) { return worker_exited(stop, e); },
          [&](Stopping& stop, const RoundEnded& e) {
            return e.round == stop.round ? decided(stop, Regroup{}) : Actions{};
          },
          [&](Stopping& stop, const JobEnded& e) { return decided(stop, End{e.outcome}); },
          [&](Stopping& stop, const Signalled& e) { return interrupted(stop, e, now); },
          [&](Stopping& stop, const Tick&) { return overdue(stop, now); },

          [&](Stopped&, const RoundEnded&) {
            state_ = Waiting{};
            return Actions{Rejoin{}};
          },
          [&](Stopped&, const JobEnded& e) { return finish(e.outcome); },
          [&](Stopped&, const Signalled& e) { return Actions{ReportInterrupted{e.signal}}; },
          [](auto&, const auto&) { return Actions{}; },  // every such pair is listed in supervisor_table.txt
      },
      state_, event);
}

std::optional<TimePoint> Supervisor::next_deadline() const {
  const auto* stop = std::get_if<Stopping>(&state_);
  return stop ? std::optional(stop->deadline) : std::nullopt;
}

std::string Supervisor::state_name() const {
  return std::visit(overloaded{[](const Waiting&) { return "waiting"; }, [](const Running&) { return "running"; },
                               [](const Stopping&) { return "stopping"; }, [](const Stopped&) { return "stopped"; },
                               [](const Over&) { return "over"; }},
                    state_);
}

std::vector<Action> Supervisor::start(const Round& round) {
  const RoundNode* self = round.find(self_);
  check(self != nullptr, "a round that reaches an agent names its node");
  state_ = Running{round.number, self->workers, 0, 0, {}};
  return {StartWorkers{round}};
}

std::vector<Action> Supervisor::worker_started(Running& run, const WorkerStarted& event) {
  if (event.round != run.round) return {};
  check(run.alive.insert(event.local_rank).second, "a local rank is started once in a round");
  return ++run.started == run.workers ? Actions{ReportRunning{run.round}} : Actions{};
}

std::vector<Action> Supervisor::worker_exited(Running& run, const WorkerExited& event, TimePoint now) {
  if (event.round != run.round) return {};
  run.alive.erase(event.local_rank);
  if (event.status.ok()) return ++run.succeeded == run.workers ? Actions{ReportDone{run.round}} : Actions{};
  return Actions{ReportFailure{event.round, event.local_rank, event.status}} + stop_running(run, Undecided{}, now);
}

std::vector<Action> Supervisor::stop_running(const Running& run, Next next, TimePoint now) {
  if (run.alive.empty()) return after_stop(run.round, next);
  state_ = Stopping{run.round, run.alive, now + policy_.stop_grace, false, std::move(next)};
  return {SignalWorkers{SIGTERM}};
}

std::vector<Action> Supervisor::worker_exited(Stopping& stop, const WorkerExited& event) {
  if (event.round != stop.round) return {};
  stop.alive.erase(event.local_rank);
  return stop.alive.empty() ? after_stop(stop.round, Next(stop.next)) : Actions{};
}

// The first wish to end is polite and keeps the deadline; the second means now.
std::vector<Action> Supervisor::interrupted(Stopping& stop, const Signalled& event, TimePoint now) {
  if (std::exchange(interrupted_, true)) return stop.killed ? Actions{} : kill(stop, now);
  return {ReportInterrupted{event.signal}};
}

std::vector<Action> Supervisor::decided(Stopping& stop, Next next) {
  if (!std::holds_alternative<End>(stop.next)) stop.next = std::move(next);  // the end is final
  return {};
}

std::vector<Action> Supervisor::overdue(Stopping& stop, TimePoint now) {
  if (now < stop.deadline) return {};
  return stop.killed ? after_stop(stop.round, Next(stop.next)) : kill(stop, now);
}

std::vector<Action> Supervisor::kill(Stopping& stop, TimePoint now) {
  stop.killed = true;
  stop.deadline = now + policy_.kill_limit;
  return {SignalWorkers{SIGKILL}};
}

std::vector<Action> Supervisor::after_stop(int round, const Next& next) {
  const Actions swept{SweepLeftovers{round}};
  return swept + std::visit(overloaded{
                                [&](const Undecided&) {
                                  state_ = Stopped{};
                                  return Actions{};
                                },
                                [&](const Regroup&) {
                                  state_ = Waiting{};
                                  return Actions{Rejoin{}};
                                },
                                [&](const End& end) { return finish(end.outcome); },
                            },
                            next);
}

std::vector<Action> Supervisor::finish(const Outcome& outcome) {
  state_ = Over{};
  return {Finish{outcome}};
}

}  // namespace ddprun
