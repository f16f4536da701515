#include "rendezvous/coordination/round/electorates.h"

#include <algorithm>
#include <utility>

namespace ddprun::rendezvous {

Electorates::Electorates(bool record_outside, std::vector<Electorate> of_record)
    : record_outside_(record_outside),
      electorates_(record_outside ? std::vector<Electorate>() : std::move(of_record)) {}

std::vector<Electorate> Electorates::all(const std::function<bool(NodeId)>& is_gone) const {
  std::vector<Electorate> out = electorates_;
  for (Electorate& one : out) std::erase_if(one.nodes, is_gone);
  std::erase_if(out, [](const Electorate& one) { return one.nodes.empty(); });
  return out;
}

bool Electorates::is_quorum(const std::set<NodeId>& present, const std::function<bool(NodeId)>& is_gone) const {
  if (record_outside_) return true;
  const std::vector<Electorate> counted = all(is_gone);
  return std::all_of(counted.begin(), counted.end(), [&](const Electorate& one) { return one.has_quorum(present); });
}

std::vector<Electorate> Electorates::round_formed(NodeId coordinator, const std::vector<NodeId>& nodes,
                                                  const std::function<bool(NodeId)>& is_gone) {
  std::vector<Electorate> before = record_outside_ ? std::vector<Electorate>() : all(is_gone);
  electorates_ = before;
  electorates_.push_back({coordinator, nodes});
  return before;
}

}  // namespace ddprun::rendezvous
