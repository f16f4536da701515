// What the desk asks of the other parts, and what the coordinator asks of this node for those who ask elsewhere.
#include <unistd.h>

#include <utility>

#include "agent/agent.h"

namespace ddprun::agent {

NodeView::Hooks Agent::view_hooks() {
  return {[this] {
            watch_.look();
            return watch_.standings();
          },
          [this] { return watch_.median_step(); }, [this](int local_rank) { return workers_.running(local_rank); },
          [this](int local_rank) { return workers_.channels().progress(local_rank, Clock::now()); },
          [this](std::vector<pid_t> pids, Duration limit, AsyncStacks::OnTaken taken) {
            watch_.take_stacks(std::move(pids), limit, std::move(taken));
          }};
}

Desk::Hooks Agent::desk_hooks() {
  return {[this] { return contact_.coordination().connected() ? std::optional(node()) : std::nullopt; },
          [this](const rendezvous::FromAgent& message) { contact_.send(message); },
          [this] {
            return Desk::NodeState{supervisor_.running_round(), supervisor_.state_name(), succeeded_, finished_};
          },
          [this] { return report(); },
          [this] { return seat_ && seat_->first_rank == 0; },
          [this](JobMeasures& out) {
            if (const auto spent = account_.closed() ? std::nullopt : account_.spent())
              out.snapshot_stall += spent->save;
            const rendezvous::Server::Counts store = store_.counts();
            out.store.connections = store.connections;
            for (std::size_t op = 0; op < store.requests.size(); ++op)
              out.store.requests.emplace_back(rendezvous::kOpNames[op], store.requests[op]);
          },
          [this](const std::string& sentence) { pipes_.print("ddprun: " + sentence + ".\n"); }};
}

rendezvous::NodeReport Agent::report() {
  rendezvous::NodeReport out = view_.report(seat_ ? &*seat_ : nullptr, supervisor_.round_with_workers().has_value());
  out.declined_fault = faults_.declined();
  if (seat_) out.spent = account_.spent();
  return out;
}

void Agent::take_asked_stacks(const rendezvous::TakeStacks& asked) {
  if (!seat_) return;
  view_.take_stacks(*seat_, [this, asked](std::string text) {
    contact_.send(rendezvous::StacksTaken{node(), asked.asker, asked.serial, std::move(text)});
  });
}

void Agent::announce_metrics() {
  const auto port = desk_.http_port();
  if (port && (log_.at(LogLevel::info) || isatty(STDERR_FILENO)))
    reporter_.metrics_are_at(!options_.metrics->certificate.empty(), options_.metrics->address, *port);
}

void Agent::suspend_workers(const rendezvous::SuspendWorkers& message) {
  if (supervisor_.running_round() == message.round) watch_.suspend(message.suspended);
}

void Agent::take_snapshot(const rendezvous::TakeSnapshot& message) {
  if (supervisor_.running_round() == message.round) workers_.channels().request_snapshot(Clock::now());
}

}  // namespace ddprun::agent
