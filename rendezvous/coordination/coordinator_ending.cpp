// What the coordinator does after the job's end: all nodes learn of it before any of them leaves.
#include <utility>

#include "rendezvous/base/overloaded.h"
#include "rendezvous/coordination/coordinator.h"

namespace ddprun::rendezvous {

Coordinator::Orders Coordinator::after_end(JobEnd& end, const Message& message) {
  bool confirmed = false;
  const auto on_notified = [&](NodeId node) { return end.on_notified(node, members_), Orders{}; };
  const auto dismiss = [](NodeId node, JobEnd::Told told) {
    return Orders{Dismiss{node, std::move(told.outcome), told.of_the_job}};
  };
  Orders orders =
      std::visit(overloaded{
                     [&](const NodeReady& m) { return dismiss(m.node, end.on_ready(m.node, members_)); },
                     [&](const NodeBack& m) { return dismiss(m.node, end.on_back(m.node, members_)); },
                     [&](const NodeNotified& m) { return confirmed = true, on_notified(m.node); },
                     [&](const JobWasOver& m) { return confirmed = true, on_notified(m.node); },
                     [&](const JobAbandoned& m) { return on_notified(m.node); },
                     [&](const NodeLost& m) { return end.on_lost(m.node, m.workers_until, members_), Orders{}; },
                     [&](const NodeGone& m) { return members_.note_gone(m.node), Orders{}; },
                     [&](const Asked& m) { return answer_after_end(m); },
                     [&](const Answered& m) { return handle(m, now_); },
                     [&](const NodeSpent& m) { return handle(m, now_); },
                     [](const auto&) { return Orders{}; },
                 },
                 message);
  if (end.announces(confirmed, members_)) orders.push_back(AllNotified{});
  return orders;
}

bool Coordinator::all_notified() const {
  const auto* end = std::get_if<JobEnd>(&state_);
  return end && end->all_notified(members_);
}

}  // namespace ddprun::rendezvous
