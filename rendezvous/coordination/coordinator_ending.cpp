// What the coordinator does after the job's end: all nodes learn of it before any of them leaves.
#include <utility>

#include "rendezvous/base/overloaded.h"
#include "rendezvous/coordination/coordinator.h"

namespace ddprun::rendezvous {

Coordinator::Orders Coordinator::after_end(Over& over, const Message& message) {
  bool confirmed = false;
  Orders orders =
      std::visit(overloaded{
                     [&](const NodeReady& m) { return answer_after_end(over, m); },
                     [&](const NodeBack& m) { return answer_after_end(over, m); },
                     [&](const NodeNotified& m) { return on_notified(over, m.node), confirmed = true, Orders{}; },
                     [&](const JobWasOver& m) { return on_notified(over, m.node), confirmed = true, Orders{}; },
                     [&](const NodeLost& m) { return note_lost(over, m), Orders{}; },
                     [&](const NodeGone& m) { return lost_.erase(m.node), gone_.insert(m.node), Orders{}; },
                     [&](const ActWanted& m) {
                       return Orders{ActDone{m.node, m.serial, false, "the job is over"}};
                     },
                     [&](const StatusWanted& m) {
                       return Orders{JobStatus{m.node, m.serial, view(now_)}};
                     },
                     [&](const RankAsked& m) {
                       return Orders{AnswerOfRank{m.node, m.serial}};
                     },
                     [&](const RankAnswered& m) {
                       return Orders{AnswerOfRank{m.asker, m.serial, 0, m.text}};
                     },
                     [&](const JobAbandoned& m) { return on_notified(over, m.node), Orders{}; },
                     [&](const NodeSpent& m) { return note_spent(m), Orders{}; },
                     [](const auto&) { return Orders{}; },
                 },
                 message);
  // Sent again for a node that comes late.
  const bool all = over.unconfirmed.empty() && (lost_.empty() || !over.inherited);
  if (all && (confirmed || !over.announced)) {
    over.announced = true;
    orders.push_back(AllNotified{});
  }
  return orders;
}

Coordinator::Orders Coordinator::answer_after_end(Over& over, const NodeReady& message) {
  const bool of_the_job = members_.contains(message.node) || lost_.erase(message.node) != 0;
  if (of_the_job) over.unconfirmed.insert(message.node);
  Outcome outcome = over.outcome;
  outcome.late = !of_the_job;
  if (outcome.late) outcome.reason = "it had ended before this node joined: " + outcome.reason;
  return {Dismiss{message.node, std::move(outcome), of_the_job}};
}

Coordinator::Orders Coordinator::answer_after_end(Over& over, const NodeBack& message) {
  lost_.erase(message.node);
  over.unconfirmed.insert(message.node);
  return {Dismiss{message.node, over.outcome, true}};
}

void Coordinator::on_notified(Over& over, NodeId node) {
  lost_.erase(node);
  over.unconfirmed.erase(node);
  over.notified.insert(node);
}

void Coordinator::note_lost(Over& over, const NodeLost& message) {
  if (over.unconfirmed.erase(message.node)) lose(message.node, {message.workers_until, ""});
}

bool Coordinator::all_notified() const {
  const auto* over = std::get_if<Over>(&state_);
  return over && over->unconfirmed.empty() && lost_.empty();
}

}  // namespace ddprun::rendezvous
