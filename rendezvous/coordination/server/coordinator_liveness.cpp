#include "rendezvous/coordination/server/coordinator_liveness.h"

#include <algorithm>

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kAnswersKept = 8;
constexpr std::chrono::milliseconds kContactEvery{100};

}  // namespace

void CoordinatorLiveness::begin() {
  contact_ = {};
  contact_known_at_ = {};
}

void CoordinatorLiveness::add(NodeId node, TimePoint now) {
  agents_[node] = {now, {{0, now}}};
  contact_.answered(node, now);
}

TimePoint CoordinatorLiveness::remove(NodeId node) {
  return agents_.extract(node).mapped().heard + lease_ + kLeaseMargin;
}

void CoordinatorLiveness::on_heartbeat(NodeId node, const Heartbeat& message, TimePoint now) {
  auto& answers = agents_.at(node).answers;
  while (!answers.empty() && answers.front().first < message.answered) answers.pop_front();
  if (!answers.empty() && answers.front().first == message.answered) contact_.answered(node, answers.front().second);
  if (answers.size() >= kAnswersKept) answers.pop_front();
  answers.emplace_back(message.number, now);
}

std::vector<NodeId> CoordinatorLiveness::silent(TimePoint now) const {
  std::vector<NodeId> out;
  for (const auto& [node, agent] : agents_)
    if (now - agent.heard >= lease_) out.push_back(node);
  return out;
}

// Cached, as sorting a thousand nodes' times for each of their messages would be waste; an older time is safe.
Duration CoordinatorLiveness::quorum_age(const Coordinator& coordinator, TimePoint now) {
  if (now - contact_known_at_ >= kContactEvery) {
    contact_at_ = contact_at(coordinator, now);
    contact_known_at_ = now;
  }
  return now - std::max(contact_at_, now - 2 * lease_);
}

// Of the nodes of no round nobody can say that they follow this coordinator alone.
TimePoint CoordinatorLiveness::contact_at(const Coordinator& coordinator, TimePoint now) const {
  const std::vector<Electorate> electorates = coordinator.electorates();
  if (!outside_) return contact_.latest(electorates, self_, now);
  return electorates.empty() ? outside_() : std::max(outside_(), contact_.latest_of_all(electorates, self_, now));
}

}  // namespace ddprun::rendezvous
