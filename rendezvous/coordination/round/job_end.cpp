#include "rendezvous/coordination/round/job_end.h"

#include <utility>

namespace ddprun::rendezvous {

JobEnd::JobEnd(Outcome outcome, bool inherited, std::set<NodeId> unconfirmed)
    : outcome_(std::move(outcome)), inherited_(inherited), unconfirmed_(std::move(unconfirmed)) {}

JobEnd::Told JobEnd::on_ready(NodeId node, Members& members) {
  const bool of_the_job = members.contains(node) || members.forget_lost(node);
  if (of_the_job) unconfirmed_.insert(node);
  Outcome outcome = outcome_;
  outcome.late = !of_the_job;
  if (outcome.late) outcome.reason = "it had ended before this node joined: " + outcome.reason;
  return {std::move(outcome), of_the_job};
}

JobEnd::Told JobEnd::on_back(NodeId node, Members& members) {
  members.forget_lost(node);
  unconfirmed_.insert(node);
  return {outcome_};
}

void JobEnd::on_notified(NodeId node, Members& members) {
  members.forget_lost(node);
  unconfirmed_.erase(node);
  notified_.insert(node);
}

void JobEnd::on_lost(NodeId node, TimePoint workers_until, Members& members) {
  if (unconfirmed_.erase(node) != 0) members.lose(node, {workers_until, ""});
}

bool JobEnd::announces(bool confirmed, const Members& members) {
  const bool all = unconfirmed_.empty() && (members.lost().empty() || !inherited_);
  return all && (!std::exchange(announced_, true) || confirmed);
}

}  // namespace ddprun::rendezvous
