#include "tests/simulation/simulated_node.h"

#include "rendezvous/base/overloaded.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr Duration kLeaveLimit = 30s;

}  // namespace

void require(bool holds, const char* words) {
  if (!holds) throw std::logic_error(std::string("broken: ") + words);
}

void require(bool holds, const std::string& words) { require(holds, words.c_str()); }

std::string named(const RecordId& id) {
  return "round " + std::to_string(id.round) + " of term " + std::to_string(id.term);
}

void Transcript::note(const std::string& line) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(net_.now().time_since_epoch()).count();
  text_ += std::to_string(ms) + " ms  " + line + "\n";
}

void SimulatedNode::at_time(TimePoint when, const std::function<void()>& what) {
  after(std::max(when - now(), Duration::zero()), what);
}

void SimulatedNode::on_contact(std::uint64_t answered, Duration age) {
  const auto heartbeat = heartbeats_sent_.find(answered);
  if (heartbeat == heartbeats_sent_.end()) return;
  answered_ = answered;
  const TimePoint then = heartbeat->second - age;
  heartbeats_sent_.erase(heartbeats_sent_.begin(), std::next(heartbeat));
  take_contact(then);
}

void SimulatedNode::take_contact(TimePoint then) {
  contact_ = std::max(contact_, std::optional(then));
  watch_lease();
}

void SimulatedNode::watch_lease() {
  lease_ends_ = *contact_ + kLease;
  at_time(lease_ends_, [this, due = lease_ends_] {
    if (is_present() && contact_ && *contact_ + kLease == due) on_lease_over();
  });
}

void SimulatedNode::schedule_heartbeat(int its_attempt) {
  after(kHeartbeatEvery, [this, its_attempt] {
    if (!is_present() || attempt != its_attempt || !welcome) return;
    heartbeats_sent_[++last_heartbeat_] = now();
    to_coordinator(Heartbeat{last_heartbeat_, answered_, stood()});
    if (stood() >= kLoopLimit) return on_stuck(its_attempt);
    schedule_heartbeat(its_attempt);
  });
}

// What is in flight belongs to an earlier attempt.
Network::LinkId SimulatedNode::forget_link() {
  ++attempt;
  welcome = false;
  heartbeats_sent_.clear();
  return std::exchange(link, 0);
}

void SimulatedNode::dispatch(const agent::Event& event) {
  if (!is_present()) return;
  events_.push_back(event);
  if (std::exchange(handling_, true)) return;
  for (; !events_.empty(); events_.pop_front())
    for (const agent::Action& action : supervisor.on(events_.front(), now())) execute(action);
  handling_ = false;
  if (const auto deadline = supervisor.next_deadline())
    at_time(*deadline, [this, due = *deadline] {
      if (supervisor.next_deadline() == due) dispatch(agent::Tick{});
    });
}

void SimulatedNode::execute(const agent::Action& action) {
  require(!finished, "nothing is done after Finish");
  std::visit(overloaded{
                 [&](const agent::ConfirmRound& a) {
                   from_loop(NodeConfirmed{id, a.round});
                 },
                 [&](const agent::StartWorkers& a) { start(a.seat); },
                 [&](const agent::SignalWorkers& a) { signal_workers(a.signal); },
                 [&](const agent::SweepLeftovers& a) { sweep(a.round); },
                 [&](const agent::ReportRunning& a) {
                   from_loop(NodeRunning{id, a.round});
                 },
                 [&](const agent::ReportDone& a) {
                   from_loop(NodeDone{id, a.round});
                 },
                 [&](const agent::ReportFailure& a) {
                   note("a worker fails");
                   from_loop(WorkerFailed{{a.round, id, a.local_rank, 0, a.status}, progressed_});
                 },
                 [&](const agent::ReportInterrupted&) { send_signal(); },
                 [&](const agent::Rejoin&) {
                   from_loop(NodeReady{id, offer});
                 },
                 [&](const agent::Finish& a) { finish(a.outcome); },
                 [](const auto&) {},
             },
             action);
}

void SimulatedNode::report_back() {
  if (const auto round = supervisor.round_with_workers())
    from_loop(NodeBack{id, *round, offer});
  else
    from_loop(NodeReady{id, offer});
  send_signal();
}

void SimulatedNode::on_job_end(const EndJob& message) {
  if (message.for_all) {
    to_coordinator(NodeNotified{id});
    if (std::exchange(end, end ? end : message.outcome)) return;
    if (!welcome) set_leave_deadline();
  }
  dispatch(agent::JobEnded{message.outcome});
}

void SimulatedNode::finish(const Outcome& outcome) {
  require(running.empty(), "an agent that finishes has no workers");
  note("finishes: " + outcome.reason);
  on_finish(outcome);
  finished_with = outcome;
  leave_when_notified(now() + kLeaveLimit);
}

// It stays until all know of the end; a coordinator stays until it has told them.
void SimulatedNode::leave_when_notified(TimePoint at_last) {
  on_loop([this, at_last] {
    if (!is_present()) return;
    if (!may_leave() && now() < at_last) return after(50ms, [this, at_last] { leave_when_notified(at_last); });
    disconnect();
    finished = true;
    leave();
    exit_when_left(at_last);
  });
}

void SimulatedNode::exit_when_left(TimePoint at_last) {
  on_loop([this, at_last] {
    if (!may_exit() && now() < at_last) return after(100ms, [this, at_last] { exit_when_left(at_last); });
    exited = true;
    exit();
  });
}

}  // namespace ddprun::test
