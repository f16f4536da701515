#include "rendezvous/coordination/election/quorum_contact.h"

#include <algorithm>
#include <functional>

namespace ddprun::rendezvous {

void QuorumContact::answered(NodeId node, TimePoint sent_at) {
  TimePoint& known = answered_[node];
  known = std::max(known, sent_at);
}

TimePoint QuorumContact::latest(const std::vector<Electorate>& electorates, NodeId self, TimePoint now) const {
  TimePoint least = now;
  for (const Electorate& electorate : electorates) least = std::min(least, latest_of(electorate, self, now));
  return least;
}

TimePoint QuorumContact::latest_of_all(const std::vector<Electorate>& electorates, NodeId self, TimePoint now) const {
  TimePoint least = now;
  for (const Electorate& electorate : electorates)
    for (const NodeId node : electorate.nodes) least = std::min(least, contact_of(node, self, now));
  return least;
}

TimePoint QuorumContact::contact_of(NodeId node, NodeId self, TimePoint now) const {
  if (node == self) return now;
  const auto found = answered_.find(node);
  return found == answered_.end() ? TimePoint::min() : found->second;
}

// Half of the nodes are enough if their coordinator is one of them.
TimePoint QuorumContact::latest_of(const Electorate& electorate, NodeId self, TimePoint now) const {
  std::vector<TimePoint> times;
  for (const NodeId node : electorate.nodes) times.push_back(contact_of(node, self, now));
  std::sort(times.begin(), times.end(), std::greater<>());
  const std::size_t half = times.size() / 2;
  const bool has_coordinator =
      std::find(electorate.nodes.begin(), electorate.nodes.end(), electorate.coordinator) != electorate.nodes.end();
  if (times.size() % 2 != 0 || !has_coordinator) return times[half];
  return std::max(times[half], std::min(times[half - 1], contact_of(electorate.coordinator, self, now)));
}

}  // namespace ddprun::rendezvous
