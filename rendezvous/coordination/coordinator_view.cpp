// What the coordinator tells those who ask what the job does.
#include <algorithm>
#include <set>
#include <utility>

#include "rendezvous/base/overloaded.h"
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
      const Member* member = members_.find(node.id);
      const bool leaves = member && member->dismissal;
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
  for (const auto& [id, member] : members_.all())
    if (!shown.contains(id)) out.push_back(view_of(id, member, running != nullptr));
  for (const auto& [id, lost] : members_.lost())
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

int Coordinator::nodes_in_round() const {
  const auto* state = std::get_if<Active>(&state_);
  return state ? static_cast<int>(state->round.nodes.size()) : 0;
}

JobReply Coordinator::reply(const Asked& asked, JobAnswer answer) const {
  return {asked.node, asked.serial, nodes_in_round(), std::move(answer)};
}

Coordinator::Orders Coordinator::handle(const Asked& message, TimePoint now) {
  return std::visit([&](const auto& question) { return answer(message, question, now); }, message.question);
}

Coordinator::Orders Coordinator::handle(const Answered& message, TimePoint) {
  JobReply reply{message.asker, message.serial, nodes_in_round()};
  std::visit([&](const auto& answer) { reply.answer = answer; }, message.answer);
  return {std::move(reply)};
}

Coordinator::Orders Coordinator::answer(const Asked& asked, const AskStacks& question, TimePoint) {
  if (!std::holds_alternative<Active>(state_)) return {reply(asked, StacksText{})};
  return {AskNodes{{}, asked.node, asked.serial, question}};
}

Coordinator::Orders Coordinator::answer(const Asked& asked, const AskStatus& question, TimePoint now) {
  Orders orders{reply(asked, view(now))};
  if (!question.job_only && std::holds_alternative<Active>(state_))
    orders.push_back(AskNodes{{}, asked.node, asked.serial, question});
  return orders;
}

// Between two rounds people want to know why the last one has failed.
Coordinator::Orders Coordinator::answer(const Asked& asked, const AskRank& question, TimePoint) {
  int world_size = 0;
  for (const RoundNode& node : last_nodes_) {
    world_size += node.workers;
    const bool runs = question.rank >= node.first_rank && question.rank < node.first_rank + node.workers;
    if (runs && members_.contains(node.id)) return {AskNodes{node.id, asked.node, asked.serial, question}};
    if (runs) return {reply(asked, RankText{})};
  }
  return {reply(asked, RankText{.world_size = world_size})};
}

Coordinator::Orders Coordinator::answer_after_end(const Asked& asked) {
  const auto say = [&](JobAnswer answer) { return Orders{reply(asked, std::move(answer))}; };
  return std::visit(overloaded{
                        [&](const AskStacks&) { return say(StacksText{}); },
                        [&](const AskStatus&) { return say(view(now_)); },
                        [&](const AskRank&) { return say(RankText{}); },
                        [&](const Act&) {
                          return say(ActResult{false, "the job is over"});
                        },
                    },
                    asked.question);
}

}  // namespace ddprun::rendezvous
