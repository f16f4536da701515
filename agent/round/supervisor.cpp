#include "agent/round/supervisor.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/overloaded.h"

namespace ddprun::agent {
namespace {

using Actions = std::vector<Action>;

Actions operator+(Actions first, Actions then) {
  for (Action& action : then) first.push_back(std::move(action));
  return first;
}

// Ctrl-C ends the job now; every other signal leaves time to save.
Action leave_request(int round, int signal) {
  return signal == SIGINT ? Action(AskToLeave{round}) : Action(AskToSave{round});
}

int first_signal(const rendezvous::Outcome& outcome) {
  return outcome.verdict == rendezvous::Verdict::interrupted && outcome.signal == SIGINT ? SIGINT : SIGTERM;
}

Action leave_request(const RoundEnded& end) {
  return end.planned ? Action(AskToSave{end.round}) : Action(AskToLeave{end.round});
}

Action leave_request(int round, const rendezvous::Outcome& outcome) {
  return outcome.verdict == rendezvous::Verdict::interrupted ? leave_request(round, outcome.signal)
                                                             : Action(AskToLeave{round});
}

}  // namespace

Supervisor::Supervisor(const StopPolicy& policy) : policy_(policy) {}

std::vector<Action> Supervisor::on(const Event& event, TimePoint now) {
  Actions held = report_held(event, now);
  return std::move(held) + decide_in_state(event, now);
}

// The report is due, or something has happened that makes it needless.
std::vector<Action> Supervisor::report_held(const Event& event, TimePoint now) {
  if (!held_report_) return {};
  if (std::holds_alternative<Tick>(event) && now >= held_report_->until)
    return {std::exchange(held_report_, std::nullopt)->report};
  if (std::holds_alternative<Signalled>(event) || std::holds_alternative<RoundEnded>(event) ||
      std::holds_alternative<JobEnded>(event) || std::holds_alternative<Isolated>(event) ||
      std::holds_alternative<RoundFormed>(event))
    held_report_.reset();
  return {};
}

std::vector<Action> Supervisor::decide_in_state(const Event& event, TimePoint now) {
  return std::visit(
      overloaded{
          [](Over&, const auto&) { return Actions{}; },
          [&](Waiting&, const RoundFormed& e) { return take(e.seat); },
          [&](Waiting&, const Signalled& e) { return Actions{ReportInterrupted{e.signal}}; },
          [&](Waiting&, const JobEnded& e) { return finish(e.outcome); },

          [&](Seated&, const RoundFormed& e) { return take(e.seat); },
          [&](Seated& seated, const RoundStarted& e) {
            return e.round == seated.seat.round ? start(rendezvous::Seat(seated.seat)) : Actions{};
          },
          [&](Seated& seated, const RoundEnded& e) { return e.round == seated.seat.round ? rejoin() : Actions{}; },
          [&](Seated&, const Signalled& e) { return Actions{ReportInterrupted{e.signal}}; },
          [&](Seated&, const JobEnded& e) { return finish(e.outcome); },

          [&](Running& run, const WorkerStarted& e) { return worker_started(run, e); },
          [&](Running& run, const WorkerDying& e) { return worker_dying(run, e, now); },
          [&](Running& run, const WorkerExited& e) { return worker_exited(run, e, now); },
          [&](Running& run, const RoundEnded& e) {
            return e.round == run.round ? stop_running(run, leave_request(e), Regroup{}, now) : Actions{};
          },
          [&](Running& run, const JobEnded& e) {
            return stop_running(run, leave_request(run.round, e.outcome), End{e.outcome}, now,
                                {first_signal(e.outcome)});
          },
          [&](Running& run, const Signalled& e) { return interrupted(run, e, now); },
          [&](Running& run, const Isolated&) { return isolated(run, now); },
          [&](Running& run, const Tick&) { return peers_overdue(run, now); },

          [&](Stopping& stop, const WorkerExited& e) { return worker_exited(stop, e, now); },
          [&](Stopping& stop, const RoundEnded& e) {
            return e.round == stop.round ? decided(stop, Regroup{}, now) : Actions{};
          },
          [&](Stopping& stop, const JobEnded& e) { return decided(stop, End{e.outcome}, now); },
          [&](Stopping& stop, const Isolated&) { return isolated(stop, now); },
          [&](Stopping& stop, const Signalled& e) { return interrupted(stop, e, now); },
          [&](Stopping& stop, const Tick&) { return tick(stop, now); },

          [&](Sweeping& sweep, const Swept& e) {
            return e.round == sweep.round ? after_sweep(Next(sweep.next)) : Actions{};
          },
          [&](Sweeping& sweep, const RoundEnded& e) {
            if (e.round == sweep.round) decide(sweep.next, Regroup{});
            return Actions{};
          },
          [&](Sweeping& sweep, const JobEnded& e) {
            decide(sweep.next, End{e.outcome});
            return Actions{};
          },
          [&](Sweeping& sweep, const Isolated&) {
            if (std::holds_alternative<Undecided>(sweep.next)) sweep.next = Regroup{};
            return Actions{};
          },
          [&](Sweeping&, const Signalled& e) {
            return std::exchange(interrupted_, true) ? Actions{} : Actions{ReportInterrupted{e.signal}};
          },
          [&](Sweeping& sweep, const Tick&) { return tick(Sweeping(sweep), now); },

          [&](Stopped&, const RoundFormed& e) { return take(e.seat); },  // after lost contact to the coordinator
          [&](Stopped&, const RoundEnded&) { return rejoin(); },
          [&](Stopped&, const JobEnded& e) { return finish(e.outcome); },
          [&](Stopped&, const Isolated&) { return rejoin(); },
          [&](Stopped&, const Signalled& e) { return Actions{ReportInterrupted{e.signal}}; },
          [](auto&, const auto&) { return Actions{}; },  // every such pair is listed in supervisor_table.txt
      },
      state_, event);
}

std::optional<TimePoint> Supervisor::next_deadline() const {
  const std::optional<TimePoint> of_state = std::visit(
      overloaded{
          [](const Running& run) { return run.peers_deadline; },
          [](const Stopping& stop) {
            if (stop.killed) return std::optional(stop.deadline);
            return std::optional(std::min({stop.deadline, stop.notice_at, stop.term_at.value_or(stop.deadline)}));
          },
          [](const Sweeping& sweep) { return std::optional(sweep.deadline); },
          [](const auto&) { return std::optional<TimePoint>(); },
      },
      state_);
  if (!held_report_) return of_state;
  return of_state ? std::min(*of_state, held_report_->until) : held_report_->until;
}

std::optional<int> Supervisor::round_with_workers() const {
  return std::visit(overloaded{
                        [](const Running& run) { return std::optional(run.round); },
                        [](const Stopping& stop) { return std::optional(stop.round); },
                        [](const Sweeping& sweep) { return std::optional(sweep.round); },
                        [](const auto&) { return std::optional<int>(); },
                    },
                    state_);
}

std::optional<int> Supervisor::running_round() const {
  const auto* run = std::get_if<Running>(&state_);
  return run ? std::optional(run->round) : std::nullopt;
}

bool Supervisor::held_by_kernel() const {
  const auto* stop = std::get_if<Stopping>(&state_);
  return stop && stop->held;
}

std::string Supervisor::state_name() const {
  return std::visit(overloaded{[](const Waiting&) { return "waiting"; }, [](const Seated&) { return "seated"; },
                               [](const Running&) { return "running"; }, [](const Stopping&) { return "stopping"; },
                               [](const Sweeping&) { return "sweeping"; }, [](const Stopped&) { return "stopped"; },
                               [](const Over&) { return "over"; }},
                    state_);
}

std::vector<Action> Supervisor::take(const rendezvous::Seat& seat) {
  state_ = Seated{seat};
  return {ConfirmRound{seat.round}};
}

std::vector<Action> Supervisor::start(const rendezvous::Seat& seat) {
  state_ = Running{seat.round, seat.workers, 0, 0, {}, {}};
  saved_.clear();
  return {StartWorkers{seat}};
}

std::vector<Action> Supervisor::worker_started(Running& run, const WorkerStarted& event) {
  if (event.round != run.round) return {};
  check(run.alive.insert(event.local_rank).second, "a local rank is started once in a round");
  return ++run.started == run.workers ? Actions{ReportRunning{run.round}} : Actions{};
}

// Stop the others without waiting until the kernel has freed a large process's memory.
std::vector<Action> Supervisor::worker_dying(const Running& run, const WorkerDying& event, TimePoint now) {
  if (event.round != run.round || event.status.ok() || !run.alive.contains(event.local_rank)) return {};
  return failed(run, event.local_rank, event.status, now);
}

std::vector<Action> Supervisor::worker_exited(Running& run, const WorkerExited& event, TimePoint now) {
  if (event.round != run.round) return {};
  run.alive.erase(event.local_rank);
  if (event.status.ok() || says_preempted(event.status)) saved_.insert(event.local_rank);
  if (event.status.ok()) return worker_ended_well(run, now);
  return failed(run, event.local_rank, event.status, now);
}

std::vector<Action> Supervisor::worker_ended_well(Running& run, TimePoint now) {
  if (++run.succeeded == run.workers) return {ReportDone{run.round}};
  if (policy_.peer_exit_timeout && !run.peers_deadline) run.peers_deadline = now + *policy_.peer_exit_timeout;
  return {};
}

std::vector<Action> Supervisor::peers_overdue(const Running& run, TimePoint now) {
  if (!run.peers_deadline || now < *run.peers_deadline || run.alive.empty()) return {};
  return failed(run, *run.alive.begin(), rendezvous::ExitStatus{.hung = true}, now);
}

std::vector<Action> Supervisor::failed(const Running& run, int local_rank, const rendezvous::ExitStatus& status,
                                       TimePoint now) {
  if (says_preempted(status)) {
    const Actions announcement{AnnouncePreempted{run.round, local_rank, status.code}};
    return announcement + interrupted(run, Signalled{SIGTERM}, now);
  }
  Actions report{ReportFailure{run.round, local_rank, status}};
  const auto& notices = policy_.notice_signals;
  if (std::find(notices.begin(), notices.end(), status.signal) != notices.end()) {
    held_report_ = HeldReport{{run.round, local_rank, status}, now + policy_.notice_window};
    report.clear();
  }
  if (run.alive.empty()) return report + sweep(run.round, Undecided{}, now);
  // Stop the others first: they should not wait until the failure is printed and reported.
  return stop_running(run, AskToLeave{run.round}, Undecided{}, now) + report;
}

std::vector<Action> Supervisor::interrupted(const Running& run, const Signalled& event, TimePoint now) {
  interrupted_ = true;
  const bool by_ctrl_c = event.signal == SIGINT;
  const SignalWorkers first{by_ctrl_c ? SIGINT : SIGTERM, by_ctrl_c && event.delivered};
  return Actions{ReportInterrupted{event.signal}} +
         stop_running(run, leave_request(run.round, event.signal), Undecided{}, now, first);
}

bool Supervisor::says_preempted(const rendezvous::ExitStatus& status) const {
  return policy_.preempt_exit_code && status.code == *policy_.preempt_exit_code;
}

std::vector<Action> Supervisor::stop_running(const Running& run, Action request, Next next, TimePoint now,
                                             SignalWorkers first) {
  if (run.alive.empty()) return sweep(run.round, std::move(next), now);
  state_ = Stopping{.round = run.round,
                    .alive = run.alive,
                    .deadline = now + policy_.stop_grace,
                    .notice_at = now + policy_.notice_first,
                    .term_at = first.signal == SIGINT ? std::optional(now + policy_.stop_grace / 2) : std::nullopt,
                    .to_save = std::holds_alternative<AskToSave>(request),
                    .next = std::move(next)};
  return {std::move(request), first};
}

std::vector<Action> Supervisor::worker_exited(Stopping& stop, const WorkerExited& event, TimePoint now) {
  if (event.round != stop.round) return {};
  stop.alive.erase(event.local_rank);
  if (stop.to_save && says_preempted(event.status)) saved_.insert(event.local_rank);
  return stop.alive.empty() ? sweep(stop.round, Next(stop.next), now) : Actions{};
}

// The first signal is graceful and keeps the deadline; a Ctrl-C after it kills at once. Schedulers repeat SIGTERM,
// which is news only to workers that have got SIGINT.
std::vector<Action> Supervisor::interrupted(Stopping& stop, const Signalled& event, TimePoint now) {
  if (!std::exchange(interrupted_, true)) return {ReportInterrupted{event.signal}};
  if (stop.killed) return {};
  if (event.signal == SIGINT) return kill(stop, now);
  return std::exchange(stop.term_at, std::nullopt) ? Actions{SignalWorkers{SIGTERM}} : Actions{};
}

void Supervisor::decide(Next& next, Next what) {
  if (!std::holds_alternative<End>(next)) next = std::move(what);  // the end is final
}

std::vector<Action> Supervisor::decided(Stopping& stop, Next next, TimePoint now) {
  decide(stop.next, std::move(next));
  if (stop.held) stop.deadline = now;  // the coordinator is to know at once
  return stop.held ? survived(stop, now) : Actions{};
}

std::vector<Action> Supervisor::tick(Stopping& stop, TimePoint now) {
  if (now >= stop.deadline) return stop.killed ? survived(stop, now) : kill(stop, now);
  if (stop.killed) return {};
  Actions actions;
  if (stop.term_at && now >= *stop.term_at) {
    stop.term_at.reset();
    actions.push_back(SignalWorkers{SIGTERM});
  }
  if (now < stop.notice_at) return actions;
  stop.notice_at = now + policy_.notice_every;
  return std::move(actions) + Actions{AnnounceWait{{stop.alive.begin(), stop.alive.end()}, stop.deadline - now}};
}

std::vector<Action> Supervisor::kill(Stopping& stop, TimePoint now) {
  stop.killed = true;
  stop.deadline = now + policy_.kill_limit;
  return {SignalWorkers{SIGKILL}};
}

// After the job's end no round follows that such a worker could disturb.
std::vector<Action> Supervisor::survived(Stopping& stop, TimePoint now) {
  if (std::holds_alternative<End>(stop.next)) return sweep(stop.round, Next(stop.next), now);
  if (stop.held && now < stop.deadline) return {};
  stop.held = true;
  stop.deadline = now + policy_.held_notice_every;
  const std::vector<int> alive(stop.alive.begin(), stop.alive.end());
  Actions actions{AnnounceHeld{alive}};
  if (std::holds_alternative<Regroup>(stop.next)) actions.push_back(ReportHeld{alive});
  return actions;
}

std::vector<Action> Supervisor::isolated(const Running& run, TimePoint now) {
  if (run.alive.empty()) return sweep(run.round, Regroup{}, now);
  Stopping stop{.round = run.round, .alive = run.alive, .deadline = now, .notice_at = now, .next = Regroup{}};
  Actions actions = kill(stop, now);
  state_ = std::move(stop);
  return actions;
}

std::vector<Action> Supervisor::isolated(Stopping& stop, TimePoint now) {
  if (std::holds_alternative<Undecided>(stop.next)) stop.next = Regroup{};
  return stop.killed ? Actions{} : kill(stop, now);
}

std::vector<Action> Supervisor::sweep(int round, Next next, TimePoint now) {
  state_ = Sweeping{round, now + policy_.sweep_limit, std::move(next)};
  return {SweepLeftovers{round}};
}

std::vector<Action> Supervisor::tick(const Sweeping& sweep, TimePoint now) {
  if (now < sweep.deadline) return {};
  return Actions{EndSweep{sweep.round}} + after_sweep(sweep.next);
}

std::vector<Action> Supervisor::after_sweep(const Next& next) {
  return std::visit(overloaded{
                        [&](const Undecided&) {
                          state_ = Stopped{};
                          return Actions{};
                        },
                        [&](const Regroup&) { return rejoin(); },
                        [&](const End& end) { return finish(end.outcome); },
                    },
                    next);
}

std::vector<Action> Supervisor::rejoin() {
  state_ = Waiting{};
  return {Rejoin{}};
}

std::vector<Action> Supervisor::finish(const rendezvous::Outcome& outcome) {
  state_ = Over{};
  if (outcome.verdict != rendezvous::Verdict::interrupted) return {Finish{outcome}};
  return {Finish{outcome, {saved_.begin(), saved_.end()}}};
}

}  // namespace ddprun::agent
