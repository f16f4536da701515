// Who is in a round: which nodes may join the job, and which ones get which group rank. Pure.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/coordination/round/members.h"
#include "rendezvous/coordination/round/round_policy.h"

namespace ddprun::rendezvous {

constexpr std::size_t kAwaitedNamesMax = 8, kAwaitedReasonMax = 200;  // of nodes, in texts for people

// Why a newcomer is refused for good; empty: it is not. `resized`: by a user, since the start.
std::optional<Outcome> refusal(const NodeOffer& newcomer, const Members& members, const RoundPolicy& policy,
                               bool resized);

struct Seating {
  const Members& members;
  const std::vector<NodeId>& last;  // the last round's, by rank
  const RoundPolicy& policy;
  std::function<bool(const Member&)> may_be_in;
  std::function<bool(const std::set<NodeId>&)> is_quorum;
};
// Survivors keep their order, and the first one stays first. Newcomers come after them, by requested rank and arrival,
// but before a survivor that requests a higher rank than they do.
std::vector<NodeId> by_rank(const Seating& from);

}  // namespace ddprun::rendezvous
