// Since when a coordinator may be alone: the nodes that it has surely been in contact with, and when.
//
// A value without a clock. A contact counts from the time at which the coordinator sent the message that the node
// answered: then or later the node still followed this coordinator, however long the answer took. A node that votes for
// another one stops answering, so once another coordinator is elected this one's contact is older than the election.
// Agents end their workers a lease after it (design of the lease: Gray and Cheriton, Leases, 1989).
#pragma once
#include <map>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

class QuorumContact {
 public:
  void answered(NodeId node, TimePoint sent_at);
  // The latest time at which a quorum of each electorate was in contact; `now` if there is no electorate. `self` is
  // always in contact.
  TimePoint latest(const std::vector<Electorate>& electorates, NodeId self, TimePoint now) const;
  // The same of all nodes.
  TimePoint latest_of_all(const std::vector<Electorate>& electorates, NodeId self, TimePoint now) const;

 private:
  TimePoint contact_of(NodeId node, NodeId self, TimePoint now) const;
  TimePoint latest_of(const Electorate& electorate, NodeId self, TimePoint now) const;

  std::map<NodeId, TimePoint> answered_;
};

}  // namespace ddprun::rendezvous
