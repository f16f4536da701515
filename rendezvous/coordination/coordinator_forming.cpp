// How the coordinator forms a round: of which nodes, in which order, without which machines.
#include <algorithm>
#include <utility>

#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/round/common_snapshot.h"

namespace ddprun::rendezvous {

int Coordinator::count_usable() const {
  if (excluded_.empty()) return members_.fit();
  return static_cast<int>(members_.which([this](const Member& member) { return is_usable(member); }).size());
}

// Nodes that are left out could elect a coordinator of their own, by an earlier round's record, unless the others are a
// quorum of it.
bool Coordinator::leaves_out_excluded() const {
  return !excluded_.empty() && count_usable() >= policy_.nodes_min &&
         has_quorum([this](const Member& member) { return is_usable(member); });
}

bool Coordinator::can_form(const Gathering& state, TimePoint now) const {
  if (!members_.all_ready() || !members_.lost().empty() || now < state.not_before) return false;
  if (rounds_ == 0 && !searching_nodes_.empty()) return false;
  const bool nobody_else = rounds_ > 0 || (state.last_call_over && now >= *state.last_call_over);
  const bool leave_out = leaves_out_excluded();
  const int usable = leave_out ? count_usable() : members_.fit();
  const bool enough = usable >= policy_.nodes_max || (usable >= policy_.nodes_min && nobody_else);
  return enough && (leave_out || has_quorum(is_fit));  // last, as it checks every node
}

bool Coordinator::is_quorum(const std::set<NodeId>& present) const {
  return electorates_.is_quorum(present, is_gone());
}

void Coordinator::update_last_call(Gathering& state, TimePoint now) const {
  if (members_.fit() < policy_.nodes_min)
    state.last_call_over.reset();
  else if (!state.last_call_over)
    state.last_call_over = now + policy_.last_call;
}

Coordinator::Orders Coordinator::form() {
  rounds_ = std::max(rounds_, rounds_seen_) + 1;
  clock_.round_formed(rounds_, now_);
  Round round{.number = rounds_, .ledger = ledger_record(now_), .term = term_, .resized = resized_};
  record_ = round.id();
  last_by_rank_ = by_rank();
  const bool left_out = leaves_out_excluded();
  int first_rank = 0;
  for (const NodeId id : last_by_rank_) {
    Member& member = members_.at(id);
    members_.set_ready(member, false);
    const NodeOffer& offer = member.offer;
    round.nodes.push_back({id, offer.workers, first_rank, offer.role, offer.name, offer.control});
    first_rank += member.offer.workers;
  }
  const NodeOffer& first = members_.at(last_by_rank_.front()).offer;
  round.master_host = first.host;
  round.master_port = first.port;
  round.kept = common_snapshot(round.nodes);
  round.coordinator = self_ && round.find(*self_) ? *self_ : last_by_rank_.front();
  round.previous_electorates = electorates_.round_formed(round.coordinator, last_by_rank_, is_gone());
  last_nodes_ = round.nodes;
  state_ =
      Active{.round = round, .formed_at = now_, .inquiry = HangInquiry({last_by_rank_.begin(), last_by_rank_.end()})};
  Orders orders = left_out ? tell_excluded() : Orders{};
  orders.insert(orders.begin(), FormRound{std::move(round)});
  return orders;
}

// All members are asked, spares among them: a node that lost its place may hold what its successor needs.
std::optional<CommonSnapshot> Coordinator::common_snapshot(const std::vector<RoundNode>& nodes) const {
  std::vector<SnapshotsOfNode> holders;
  for (const auto& [id, member] : members_.all())
    if (!member.offer.held.empty()) holders.push_back({id, member.offer.control, &member.offer.held});
  return holders.empty() ? std::nullopt : newest_common_snapshot(holders, nodes);
}

std::vector<NodeId> Coordinator::by_rank() const {
  const bool leave_out = leaves_out_excluded();
  return rendezvous::by_rank({.members = members_,
                              .last = last_by_rank_,
                              .policy = policy_,
                              .may_be_in = [&](const Member& one) { return leave_out ? is_usable(one) : is_fit(one); },
                              .is_quorum = [&](const std::set<NodeId>& present) { return is_quorum(present); }});
}

void Coordinator::note_failure_of(const Failure& failure, bool excluded_by_rule, TimePoint now) {
  if (failure.of_all) return;
  Member& member = members_.at(failure.node);
  if (excluded_by_rule)
    excluded_.exclude(member.offer, "a rule says " + name_of(RuleAction::restart_elsewhere), now);
  else if (!excluded_.note_failure(member.offer, now))
    return;
  member.knows_exclusion = false;
}

// Those that the round which was just formed has left out.
std::vector<Order> Coordinator::tell_excluded() {
  std::vector<Order> out;
  for (const auto& [node, member] : members_.all())
    if (const std::string* why = member.ready && !member.knows_exclusion ? excluded_.why(member.offer) : nullptr) {
      out.push_back(Exclude{node, *why, excluded_.left(member.offer, now_)});
      members_.at(node).knows_exclusion = true;
    }
  return out;
}

// A machine may take part again: as if its node joined now.
Coordinator::Orders Coordinator::readmit(TimePoint now) {
  return excluded_.forget_old(now) ? welcome_back(now) : Orders{};
}

Coordinator::Orders Coordinator::welcome_back(TimePoint now) {
  const auto* running = std::get_if<Active>(&state_);
  if (!running || static_cast<int>(running->round.nodes.size()) >= policy_.nodes_max) return {};
  const std::set<NodeId> back =
      members_.which([&](const Member& member) { return is_usable(member) && member.knows_exclusion; });
  if (back.empty()) return {};
  Member& first = members_.at(*back.begin());
  first.knows_exclusion = false;
  return regroup_as_planned(name_of(first.offer) + " joins again", now);
}

}  // namespace ddprun::rendezvous
