// What the coordinator does when a user acts on the job (act_effect.h).
#include <csignal>
#include <utility>

#include "rendezvous/coordination/act_effect.h"
#include "rendezvous/coordination/coordinator.h"

namespace ddprun::rendezvous {

Coordinator::Orders Coordinator::answer(const Asked& asked, const Act& act, TimePoint now) {
  auto* running = std::get_if<Active>(&state_);
  ActEffect effect =
      effect_of(act, {.policy = policy_,
                      .members = members_,
                      .excluded = excluded_,
                      .resized = resized_,
                      .round = running ? &running->round : nullptr,
                      .paused = running && running->all_started_at ? &running->paused : nullptr,
                      .takes_nodes = self_.has_value(),
                      .last_by_rank = last_by_rank_,
                      .record = record_,
                      .can_go_on_without = [this](NodeId node) { return can_go_on_without(node); },
                      .is_quorum = [this](const std::set<NodeId>& present) { return is_quorum(present); },
                      .has_usable = count_usable() > 0,
                      .now = now});
  Orders then = carry_out(effect, now);
  if (effect.order) then.push_back(std::move(*effect.order));
  running = std::get_if<Active>(&state_);
  const NodeId reporter = running ? running->round.nodes.front().id : asked.node;
  Orders orders;
  if (effect.keep) orders.push_back(*effect.keep);
  orders.push_back(reply(asked, effect.result));
  orders.push_back(ReportAct{reporter, act, effect.result.done, effect.result.text});
  for (Order& order : then) orders.push_back(std::move(order));
  return orders;
}

Coordinator::Orders Coordinator::carry_out(const ActEffect& effect, TimePoint now) {
  Orders orders;
  switch (effect.then) {
    case ActEffect::Then::nothing:
      return {};
    case ActEffect::Then::round_ends:
      return regroup_as_planned(effect.reason, now);
    case ActEffect::Then::job_ends:
      return end_job({Verdict::interrupted, SIGTERM, effect.reason, std::nullopt});
    case ActEffect::Then::leave_out:
      orders = tell_excluded();
      [[fallthrough]];
    case ActEffect::Then::advance:
      for (Order& order : advance(now)) orders.push_back(std::move(order));
      return orders;
    case ActEffect::Then::welcome_back:
      return welcome_back(now);
  }
  return {};
}

}  // namespace ddprun::rendezvous
