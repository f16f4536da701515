// The job's end, and which nodes know of it: all learn of it before any of them leaves. A value.
#pragma once
#include <set>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/members.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

class JobEnd {
 public:
  // `unconfirmed`: the members. `inherited`: an earlier coordinator ended the job, or was lost: nodes of its round that
  // are not here may not know.
  explicit JobEnd(Outcome outcome, bool inherited = false, std::set<NodeId> unconfirmed = {});

  const Outcome& outcome() const { return outcome_; }
  void inherit() { inherited_ = true; }  // another coordinator has ended it as well
  const std::set<NodeId>& notified() const { return notified_; }

  // What a node is told that comes: without workers, or back with those of a round.
  struct Told {
    Outcome outcome;
    bool of_the_job = true;
  };
  Told on_ready(NodeId node, Members& members);
  Told on_back(NodeId node, Members& members);
  void on_notified(NodeId node, Members& members);
  void on_lost(NodeId node, TimePoint workers_until, Members& members);

  // All that are here know. True once, and again for each node that has `confirmed` since.
  bool announces(bool confirmed, const Members& members);
  bool all_notified(const Members& members) const { return unconfirmed_.empty() && members.lost().empty(); }

 private:
  Outcome outcome_;
  bool inherited_ = false, announced_ = false;
  std::set<NodeId> unconfirmed_, notified_;  // connected nodes; those that have received it
};

}  // namespace ddprun::rendezvous
