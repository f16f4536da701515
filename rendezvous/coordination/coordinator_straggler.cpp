// What the coordinator does about ranks that make the others wait.
#include <algorithm>
#include <utility>

#include "rendezvous/coordination/coordinator.h"

namespace ddprun::rendezvous {
namespace {

const std::string& host_of(const NodeOffer& node) { return node.name.empty() ? node.host : node.name; }

// Empty: the round's end says it.
std::string then_in_words(const std::string& host, bool can_go_on, StragglerPolicy policy) {
  if (policy == StragglerPolicy::dry_run)
    return "--stragglers=replace would go on " +
           (can_go_on ? "without " + host : "with " + host + ", as too few others are left");
  return can_go_on ? "" : host + " stays, as too few others are left";
}

}  // namespace

// As if a rule excluded its machine now. The others must be able to elect a coordinator without it.
bool Coordinator::can_go_on_without(NodeId node) const {
  ExcludedHosts others = excluded_;
  others.exclude(members_.at(node).offer, "", now_);
  const auto counts = [&](const Member& member) {
    return !member.dismissal && member.offer.unfit.empty() && !others.why(member.offer);
  };
  const std::set<NodeId> left = members_.which(counts);
  return static_cast<int>(left.size()) >= policy_.nodes_min && is_quorum(left);
}

Coordinator::Orders Coordinator::handle(const NodePace& message, TimePoint now) {
  Active* state = active(message.round, message.node);
  const Member* member = members_.find(message.node);
  if (!state || !state->all_started_at || !member) return {};
  if (policy_.stragglers == StragglerPolicy::off) return {};
  const RoundNode& there = *state->round.find(message.node);
  std::vector<Pace> windows = message.windows;
  std::erase_if(windows, [&](const Pace& one) {
    return one.rank < there.first_rank || one.rank >= there.first_rank + there.workers;
  });
  const bool several = state->round.nodes.size() > 1;
  const std::string host = several ? host_of(member->offer) : "";
  const bool is_acted_on = policy_.stragglers != StragglerPolicy::say;
  Orders orders;
  bool is_replaced = false;
  for (const PaceChange& change : state->pace.on(windows, now, is_acted_on)) {
    ReportPace report{state->round.nodes.front().id, message.round, change, change.rank < 0 ? "" : host};
    if (change.kind == PaceChange::Kind::straggler && is_acted_on) {
      const bool can_go_on = can_go_on_without(message.node);
      report.then = then_in_words(several ? host : "this node", can_go_on, policy_.stragglers);
      is_replaced |= can_go_on && policy_.stragglers == StragglerPolicy::replace;
    }
    orders.push_back(std::move(report));
  }
  if (is_replaced)
    for (Order& order : replace(message.node, now)) orders.push_back(std::move(order));
  return orders;
}

Coordinator::Orders Coordinator::replace(NodeId node, TimePoint now) {
  Member& member = members_.at(node);
  excluded_.exclude(member.offer, "its workers are slower than the others", now);
  member.knows_exclusion = false;
  return regroup_as_planned(name_of(member.offer) + " is left out (--stragglers=replace)", now);
}

}  // namespace ddprun::rendezvous
