// Which rounds' nodes could elect another coordinator to continue the job. A value.
#pragma once
#include <functional>
#include <set>
#include <vector>

#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

class Electorates {
 public:
  // `record_outside`: RoundPolicy::record_outside. Then no node has a vote, and the newest round's nodes alone are
  // kept.
  Electorates(bool record_outside, std::vector<Electorate> of_record);
  // Without the nodes that are gone.
  std::vector<Electorate> all(const std::function<bool(NodeId)>& is_gone) const;
  // Whether these nodes could elect one, and the others none without them.
  bool is_quorum(const std::set<NodeId>& present, const std::function<bool(NodeId)>& is_gone) const;
  // Those that count before the round of these nodes is confirmed, and that round. Returns the former.
  std::vector<Electorate> round_formed(NodeId coordinator, const std::vector<NodeId>& nodes,
                                       const std::function<bool(NodeId)>& is_gone);
  void round_confirmed() { electorates_ = {electorates_.back()}; }  // by all its nodes: it alone counts

 private:
  bool record_outside_;
  std::vector<Electorate> electorates_;
};

}  // namespace ddprun::rendezvous
