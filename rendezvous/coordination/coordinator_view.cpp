// What the coordinator tells those who ask what the job does.
#include <algorithm>
#include <set>

#include "rendezvous/coordination/coordinator.h"

namespace ddprun::rendezvous {
namespace {

Duration not_negative(Duration time) { return std::max(time, Duration::zero()); }

}  // namespace

// Of a node that is in no round.
NodeView Coordinator::view_of(NodeId id, const Member& member, bool a_round_runs) const {
  const NodeOffer& offer = member.offer;
  NodeView out{.id = id, .name = offer.name, .host = offer.host, .workers = offer.workers};
  if (!member.ready || member.dismissal) {
    out.place = NodePlace::stopping;
  } else if (!offer.unfit.empty()) {
    out.place = NodePlace::unfit;
    out.why = offer.unfit.substr(0, kAwaitedReasonMax);
  } else if (const std::string* why = excluded_.why(offer)) {
    out.place = NodePlace::excluded;
    out.why = *why;
  } else {
    out.place = a_round_runs ? NodePlace::spare : NodePlace::ready;
  }
  return out;
}

std::vector<NodeView> Coordinator::node_views() const {
  std::vector<NodeView> out;
  const auto* running = std::get_if<Active>(&state_);
  std::set<NodeId> shown;
  if (running)
    for (const RoundNode& node : running->round.nodes) {
      const auto member = members_.find(node.id);
      const bool leaves = member != members_.end() && member->second.dismissal;
      const NodePlace active = running->done.contains(node.id) ? NodePlace::done : NodePlace::active;
      shown.insert(node.id);
      out.push_back({.id = node.id,
                     .name = node.name,
                     .host = node.control.host,
                     .place = leaves ? NodePlace::stopping : active,
                     .group_rank = static_cast<int>(out.size()),
                     .first_rank = node.first_rank,
                     .workers = node.workers});
    }
  for (const auto& [id, member] : members_)
    if (!shown.contains(id)) out.push_back(view_of(id, member, running != nullptr));
  for (const auto& [id, lost] : lost_)
    out.push_back({.id = id, .name = lost.name, .place = NodePlace::lost, .workers = 0});
  return out;
}

JobView Coordinator::view(TimePoint now) const {
  JobView out{.round = rounds_,
              .term = term_,
              .coordinator = self_.value_or(0),
              .nodes_min = policy_.nodes_min,
              .nodes_max = policy_.nodes_max,
              .restarts_max = policy_.restarts.max_restarts,
              .counts = ledger_.counts(),
              .nodes = node_views()};
  out.account = clock_.closed(now);
  if (const auto since = clock_.round_since())
    out.round_age = not_negative(now - *since);
  else
    out.account.spent = clock_.account(now);
  if (const auto* state = std::get_if<Gathering>(&state_)) {
    out.since = not_negative(now - state->since);
    out.backoff = not_negative(state->not_before - now);
    if (const auto awaits = attendance()) out.awaited = awaits->awaited;
  } else if (const auto* state = std::get_if<Active>(&state_)) {
    out.phase = state->all_started_at ? JobPhase::running : JobPhase::starting;
    out.since = not_negative(now - state->all_started_at.value_or(state->formed_at));
    out.world_size = state->round.world_size();
    out.slow = state->pace.named();
  } else {
    out.phase = JobPhase::over;
  }
  return out;
}

Coordinator::Orders Coordinator::handle(const StatusWanted& message, TimePoint now) {
  Orders orders{JobStatus{message.node, message.serial, view(now)}};
  if (!message.job_only && std::holds_alternative<Active>(state_))
    orders.push_back(ReportStatus{message.node, message.serial, message.lines});
  return orders;
}

Coordinator::Orders Coordinator::handle(const NodeStatus& message, TimePoint) {
  return {StatusOfNode{message.asker, message.serial, message.report}};
}

}  // namespace ddprun::rendezvous
