// What a user does to the running job (act.h).
#include <algorithm>
#include <csignal>

#include "rendezvous/coordination/coordinator.h"

namespace ddprun::rendezvous {
namespace {

const char* const kNoRound = "no round is under way";

std::string plural(int count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

// By its name, or by its group rank.
std::optional<NodeId> Coordinator::node_named(const std::string& name) const {
  if (const auto* running = std::get_if<Active>(&state_))
    for (std::size_t i = 0; i < running->round.nodes.size(); ++i)
      if (name == std::to_string(i) && members_.contains(running->round.nodes[i].id)) return running->round.nodes[i].id;
  for (const auto& [id, member] : members_)
    if (member.offer.name == name || member.offer.host == name) return id;
  return {};
}

Coordinator::Orders Coordinator::handle(const ActWanted& message, TimePoint now) {
  Orders orders;
  const Done done = carry_out(message.act, now, orders);
  const auto* running = std::get_if<Active>(&state_);
  const NodeId reporter = running ? running->round.nodes.front().id : message.node;
  // Who asks may take what is done for what is kept.
  const bool keeps = !orders.empty() && std::holds_alternative<KeepRange>(orders.front());
  orders.insert(orders.begin() + keeps, {ActDone{message.node, message.serial, done.done, done.text},
                                         ReportAct{reporter, message.act, done.done, done.text}});
  return orders;
}

Coordinator::Done Coordinator::carry_out(const Act& act, TimePoint now, Orders& orders) {
  switch (act.kind) {
    case ActKind::restart:
      return restart(act, now, orders);
    case ActKind::stop:
      orders = end_job({Verdict::interrupted, SIGTERM, "stopped by " + act.by, std::nullopt});
      return {true, "the workers save, and the job ends"};
    case ActKind::drain:
      return drain(act, now, orders);
    case ActKind::admit:
      return admit(act, now, orders);
    case ActKind::resize:
      return resize(act, now, orders);
    case ActKind::add_workers:
    case ActKind::remove_workers:
      return change_workers(act, now, orders);
    case ActKind::pause:
    case ActKind::resume:
      return suspend(act, orders);
    case ActKind::snapshot:
      return take_snapshot(orders);
    case ActKind::fault:
      return inject(act, orders);
  }
  return {false, "it is not known"};
}

Coordinator::Done Coordinator::restart(const Act& act, TimePoint now, Orders& orders) {
  const auto* running = std::get_if<Active>(&state_);
  if (!running) return {false, kNoRound};
  const int next = running->round.number + 1;
  credit_round(now);
  ledger_.charge_resize();
  orders = regroup({0, true, "restarted by " + act.by}, now, now);
  return {true, "the workers save, and round " + std::to_string(next) + " follows"};
}

Coordinator::Done Coordinator::drain(const Act& act, TimePoint now, Orders& orders) {
  const auto node = node_named(act.node);
  if (!node) return {false, "there is no node " + act.node};
  Member& member = members_.at(*node);
  if (excluded_.why(member.offer)) return {false, name_of(member.offer) + " is left out already"};
  if (!can_go_on_without(*node))
    return {false, "too few others are left without " + name_of(member.offer) + ": the job needs " +
                       plural(policy_.nodes_min, "node") + ", and a majority of the last round's"};
  excluded_.exclude(member.offer, "drained by " + act.by, now, kLimitWindowMax);
  member.knows_exclusion = false;
  const std::string name = name_of(member.offer);
  if (!active_with(*node)) {
    orders = tell_excluded();
    for (Order& order : advance(now)) orders.push_back(std::move(order));
    return {true, name + " is in no further round"};
  }
  credit_round(now);
  ledger_.charge_resize();
  orders = regroup({0, true, name + " is drained by " + act.by}, now, now);
  return {true, "the workers save, and the job goes on without " + name};
}

Coordinator::Done Coordinator::admit(const Act& act, TimePoint now, Orders& orders) {
  const auto node = node_named(act.node);
  if (!node) return {false, "there is no node " + act.node};
  const NodeOffer& offer = members_.at(*node).offer;
  if (!excluded_.why(offer)) return {false, name_of(offer) + " is not left out"};
  excluded_.admit(offer);
  orders = welcome_back(now);
  return {true, name_of(offer) + " may take part again"};
}

// Those that are left out must not be able to elect a coordinator of their own.
bool Coordinator::can_shrink_to(int nodes) const {
  std::set<NodeId> first;
  for (const NodeId id : last_by_rank_)
    if (static_cast<int>(first.size()) < nodes && members_.contains(id)) first.insert(id);
  return is_quorum(first);
}

void Coordinator::take_range(const NodeRange& range) {
  policy_.nodes_min = range.least;
  policy_.nodes_max = range.most;
  resized_ = range;
}

Coordinator::Done Coordinator::resize(const Act& act, TimePoint now, Orders& orders) {
  if (!self_) return {false, "a job of one node is joined by no others (--nnodes)"};
  if (policy_.fixed_ranks) return {false, "nodes of a static job have fixed ranks (--rdzv-backend=c10d has none)"};
  const int here = static_cast<int>(members_.size());
  if (here < act.nodes_min)
    return {false, "only " + plural(here, "node") + (here == 1 ? " is" : " are") + " here, and " +
                       std::to_string(act.nodes_min) + " would be needed"};
  const auto* running = std::get_if<Active>(&state_);
  const auto in_last = static_cast<int>(last_by_rank_.size());
  if (act.nodes_max < in_last && !can_shrink_to(act.nodes_max))
    return {false, "at most half of the " + plural(in_last, "node") + " can leave at once: resize step by step"};
  take_range({act.nodes_min, act.nodes_max});
  const KeepRange keep{record_, *resized_};
  const std::string text = "rounds have " + std::to_string(act.nodes_min) + " to " + plural(act.nodes_max, "node");
  if (!running) {
    orders = advance(now);
    orders.insert(orders.begin(), keep);
    return {true, text};
  }
  const int size = static_cast<int>(running->round.nodes.size());
  const bool grows = size < act.nodes_max && count_usable() > 0;
  if (size <= act.nodes_max && !grows) return orders.push_back(keep), Done{true, text};
  credit_round(now);
  ledger_.charge_resize();
  orders = regroup(
      {0, true, "resized to " + std::to_string(act.nodes_min) + ":" + std::to_string(act.nodes_max) + " by " + act.by},
      now, now);
  orders.insert(orders.begin(), keep);
  return {true, text + "; the workers save, and the next round begins"};
}

void Coordinator::take_offer(Member& member, const NodeOffer& offer) {
  member.offer = offer;
  if (!member.workers || *member.workers == offer.workers) return;
  member.offer.workers = *member.workers;
  member.offer.held.clear();  // its memory is laid out anew
}

// Nodes learn of it by their next seat, and offer as many from then on.
Coordinator::Done Coordinator::change_workers(const Act& act, TimePoint now, Orders& orders) {
  std::vector<NodeId> nodes;
  if (const auto node = act.node.empty() ? std::nullopt : node_named(act.node))
    nodes.push_back(*node);
  else if (!act.node.empty())
    return {false, "there is no node " + act.node};
  else
    for (const auto& [id, member] : members_)
      if (!member.dismissal) nodes.push_back(id);
  if (nodes.empty()) return {false, "no node is here"};
  const int change = act.kind == ActKind::add_workers ? act.workers : -act.workers;
  for (const NodeId id : nodes) {
    const NodeOffer& offer = members_.at(id).offer;
    const int most = std::max(offer.workers, offer.workers_most);
    if (offer.workers + change > most)
      return {false, name_of(offer) + " takes " + plural(most, "worker") + " at most, and has " +
                         std::to_string(offer.workers)};
    if (offer.workers + change < 1)
      return {false, name_of(offer) + " has " + plural(offer.workers, "worker") + ", and keeps at least one"};
  }
  std::string text;
  bool in_round = false;
  for (const NodeId id : nodes) {
    Member& member = members_.at(id);
    member.workers = member.offer.workers += change;
    member.offer.held.clear();
    in_round |= active_with(id) != nullptr;
    if (nodes.size() == 1) text = name_of(member.offer) + " has " + plural(*member.workers, "worker");
  }
  if (nodes.size() > 1) text = "each node has " + plural(act.workers, "worker") + (change > 0 ? " more" : " fewer");
  if (!in_round) return orders = advance(now), Done{true, text + " in the next round"};
  credit_round(now);
  ledger_.charge_resize();
  orders = regroup({0, true, in_words(act) + " by " + act.by}, now, now);
  return {true, text + "; the workers save, and the next round begins"};
}

Coordinator::Done Coordinator::suspend(const Act& act, Orders& orders) {
  auto* running = std::get_if<Active>(&state_);
  if (!running || !running->all_started_at) return {false, kNoRound};
  const bool pauses = act.kind == ActKind::pause;
  if (running->paused == pauses) return {false, pauses ? "it is paused already" : "it is not paused"};
  running->paused = pauses;
  orders.push_back(SuspendWorkers{running->round.number, pauses});
  return {true, pauses ? "all workers are stopped until resume" : "all workers go on"};
}

Coordinator::Done Coordinator::inject(const Act& act, Orders& orders) {
  if (!policy_.allow_chaos) return {false, "the job was not started with --allow-chaos, so it is not to be tested"};
  const auto* running = std::get_if<Active>(&state_);
  if (!act.fault || !running || !running->all_started_at) return {false, kNoRound};
  if (running->paused) return {false, "the job is paused"};
  const Fault& fault = *act.fault;
  for (const RoundNode& node : running->round.nodes) {
    if (fault.rank < node.first_rank || fault.rank >= node.first_rank + node.workers) continue;
    if (fault.kind == FaultKind::cut && !self_) return {false, "a job of one node has no connection to be cut"};
    orders.push_back(InjectFault{node.id, running->round.number, fault});
    return {true, in_words(fault) + ", on " + node.name};
  }
  return {false, "there is no rank " + std::to_string(fault.rank)};
}

Coordinator::Done Coordinator::take_snapshot(Orders& orders) {
  const auto* running = std::get_if<Active>(&state_);
  if (!running || !running->all_started_at) return {false, kNoRound};
  if (running->paused) return {false, "the job is paused"};
  orders.push_back(TakeSnapshot{running->round.number});
  return {true, "the workers are asked to save, and go on"};
}

}  // namespace ddprun::rendezvous
