// Since when a coordinator may be alone: whom it has surely been in contact with, and when.
//
// A value without a clock. A node counts by the time at which the coordinator said what the node has answered: at that
// time or later it still followed this coordinator, however long the answer was on its way. Who votes for another
// answers no more, so once another coordinator is elected this one's contact stays behind the election. Agents end
// their workers a lease after it (design of the lease: Gray and Cheriton, Leases, 1989).
#pragma once
#include <map>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round.h"

namespace ddprun::rendezvous {

class QuorumContact {
 public:
  void answered(NodeId node, TimePoint said_at);
  // The latest time by which a quorum of each electorate was there; `now` where there is none to ask. `self` is always
  // there.
  TimePoint latest(const std::vector<Electorate>& electorates, NodeId self, TimePoint now) const;

 private:
  TimePoint of(NodeId node, NodeId self, TimePoint now) const;
  TimePoint latest_of(const Electorate& electorate, NodeId self, TimePoint now) const;

  std::map<NodeId, TimePoint> answered_;
};

}  // namespace ddprun::rendezvous
