// When each agent was last heard from, and since when the coordinator may be without a quorum of them.
//
// A value without a clock: `now` never goes back.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/election/quorum_contact.h"
#include "rendezvous/coordination/wire/control_message.h"

namespace ddprun::rendezvous {

constexpr std::chrono::seconds kLease{5};
constexpr std::chrono::seconds kLeaseMargin{1};  // for the kernel to end workers, and for slow clocks

class CoordinatorLiveness {
 public:
  // `self`: the node whose agent runs the coordinator; 0: none. `outside`: its last contact with the place that keeps
  // the record; empty: the nodes keep it.
  CoordinatorLiveness(Duration lease, NodeId self, std::function<TimePoint()> outside = {})
      : lease_(lease), self_(self), outside_(std::move(outside)) {}

  // A new coordinator begins: no node has followed it yet.
  void begin();
  // That node has followed no other coordinator since `then`.
  void followed(NodeId node, TimePoint then) { contact_.answered(node, then); }

  // It said hello, which is answered now.
  void add(NodeId node, TimePoint now);
  // Returns when its workers are dead, whatever happens to it now.
  TimePoint remove(NodeId node);
  void heard(NodeId node, TimePoint now) { agents_.at(node).heard = now; }
  // The heartbeat is answered now.
  void on_heartbeat(NodeId node, const Heartbeat& message, TimePoint now);
  std::vector<NodeId> silent(TimePoint now) const;

  // Time since the coordinator's last contact to a quorum, or to that place or all nodes; at most two leases.
  Duration quorum_age(const Coordinator& coordinator, TimePoint now);

 private:
  struct Agent {
    TimePoint heard;
    std::deque<std::pair<std::uint64_t, TimePoint>> answers;  // when they were given
  };

  TimePoint contact_at(const Coordinator& coordinator, TimePoint now) const;

  const Duration lease_;
  const NodeId self_;
  const std::function<TimePoint()> outside_;
  std::map<NodeId, Agent> agents_;
  QuorumContact contact_;
  TimePoint contact_at_ = {}, contact_known_at_ = {};
};

}  // namespace ddprun::rendezvous
