// How the coordinator forms a round: of which nodes, in which order, without which machines.
#include <algorithm>
#include <limits>
#include <utility>

#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/round/common_snapshot.h"

namespace ddprun::rendezvous {
namespace {

constexpr int kNoRequest = std::numeric_limits<int>::max();

int requested_rank(const NodeOffer& offer) { return offer.requested_rank.value_or(kNoRequest); }

}  // namespace

int Coordinator::count_fit() const {
  if (!knows_unfit_) return ready_;  // the usual case
  return ready_ - static_cast<int>(std::count_if(members_.begin(), members_.end(), [](const auto& entry) {
           return entry.second.ready && !entry.second.offer.unfit.empty();
         }));
}

int Coordinator::count_usable() const {
  if (excluded_.empty()) return count_fit();
  return static_cast<int>(
      std::count_if(members_.begin(), members_.end(), [&](const auto& entry) { return is_usable(entry.second); }));
}

// Nodes that are left out could elect a coordinator of their own, by an earlier round's record, unless the others are a
// quorum of it.
bool Coordinator::leaves_out_excluded() const {
  return !excluded_.empty() && count_usable() >= policy_.nodes_min &&
         has_quorum([this](const Member& member) { return is_usable(member); });
}

bool Coordinator::can_form(const Gathering& state, TimePoint now) const {
  if (ready_ < static_cast<int>(members_.size()) || !lost_.empty() || now < state.not_before) return false;
  if (rounds_ == 0 && !searching_nodes_.empty()) return false;
  const bool nobody_else = rounds_ > 0 || (state.last_call_over && now >= *state.last_call_over);
  const bool leave_out = leaves_out_excluded();
  const int usable = leave_out ? count_usable() : count_fit();
  const bool enough = usable >= policy_.nodes_max || (usable >= policy_.nodes_min && nobody_else);
  return enough && (leave_out || has_quorum(is_fit));  // last, as it checks every node
}

bool Coordinator::has_quorum(const std::function<bool(const Member&)>& counts) const {
  std::set<NodeId> present;
  for (const auto& [id, member] : members_)
    if (counts(member)) present.insert(id);
  return is_quorum(present);
}

bool Coordinator::is_quorum(const std::set<NodeId>& present) const {
  if (policy_.record_outside) return true;
  const std::vector<Electorate> all = electorates();
  return std::all_of(all.begin(), all.end(), [&](const Electorate& one) { return one.has_quorum(present); });
}

void Coordinator::update_last_call(Gathering& state, TimePoint now) const {
  if (count_fit() < policy_.nodes_min)
    state.last_call_over.reset();
  else if (!state.last_call_over)
    state.last_call_over = now + policy_.last_call;
}

Coordinator::Orders Coordinator::form() {
  rounds_ = std::max(rounds_, rounds_seen_) + 1;
  clock_.round_formed(rounds_, now_);
  Round round{.number = rounds_,
              .ledger = ledger_record(now_),
              .term = term_,
              .previous_electorates = policy_.record_outside ? std::vector<Electorate>() : electorates(),
              .resized = resized_};
  record_ = round.id();
  last_by_rank_ = by_rank();
  const bool left_out = leaves_out_excluded();
  int first_rank = 0;
  for (const NodeId id : last_by_rank_) {
    Member& member = members_.at(id);
    set_ready(member, false);
    const NodeOffer& offer = member.offer;
    round.nodes.push_back({id, offer.workers, first_rank, offer.role, offer.name, offer.control});
    first_rank += member.offer.workers;
  }
  const NodeOffer& first = members_.at(last_by_rank_.front()).offer;
  round.master_host = first.host;
  round.master_port = first.port;
  round.kept = common_snapshot(round.nodes);
  round.coordinator = self_ && round.find(*self_) ? *self_ : last_by_rank_.front();
  electorates_ = round.previous_electorates;
  electorates_.push_back({round.coordinator, last_by_rank_});
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
  for (const auto& [id, member] : members_)
    if (!member.offer.held.empty()) holders.push_back({id, member.offer.control, &member.offer.held});
  return holders.empty() ? std::nullopt : newest_common_snapshot(holders, nodes);
}

// Survivors keep their order, and the first one stays first. Newcomers come after them, by requested rank and arrival,
// but before a survivor that requests a higher rank than they do.
std::vector<NodeId> Coordinator::by_rank() const {
  struct Entry {
    NodeId id;
    int requested, arrival;
  };
  std::vector<Entry> order, newcomers;
  std::set<NodeId> survivors;
  const bool leave_out = leaves_out_excluded();
  const auto may_be_in = [&](const Member& member) { return leave_out ? is_usable(member) : is_fit(member); };
  for (const NodeId id : last_by_rank_) {
    const auto found = members_.find(id);
    if (found == members_.end() || !may_be_in(found->second)) continue;
    order.push_back({id, requested_rank(found->second.offer), 0});
    survivors.insert(id);
  }
  for (const auto& [id, member] : members_)
    if (may_be_in(member) && !survivors.contains(id))
      newcomers.push_back({id, requested_rank(member.offer), member.arrival});
  std::sort(newcomers.begin(), newcomers.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.requested, a.arrival) < std::pair(b.requested, b.arrival);
  });
  // A user may have resized the job. Who is left out could go on alone, unless the others are a quorum: as many stay.
  if (auto most = static_cast<std::size_t>(policy_.nodes_max); order.size() > most) {
    std::set<NodeId> first;
    for (std::size_t i = 0; i < most; ++i) first.insert(order[i].id);
    for (; most < order.size() && !is_quorum(first); ++most) first.insert(order[most].id);
    order.resize(most);
  }
  const std::size_t room =
      static_cast<std::size_t>(policy_.nodes_max) - std::min<std::size_t>(order.size(), policy_.nodes_max);
  if (newcomers.size() > room) newcomers.resize(room);
  const bool head_stays = !policy_.fixed_ranks && !order.empty();
  // Newcomers are sorted by requested rank: once no node in `order` requests a higher one, none does for the following
  // ones.
  bool to_the_end = false;
  for (const Entry& newcomer : newcomers) {
    auto before = order.end();
    if (!to_the_end)
      before = std::find_if(order.begin() + (head_stays ? 1 : 0), order.end(),
                            [&](const Entry& other) { return other.requested > newcomer.requested; });
    to_the_end = before == order.end();
    order.insert(before, newcomer);
  }
  std::vector<NodeId> out;
  out.reserve(order.size());
  for (const Entry& node : order) out.push_back(node.id);
  return out;
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
  for (auto& [node, member] : members_)
    if (const std::string* why = member.ready && !member.knows_exclusion ? excluded_.why(member.offer) : nullptr) {
      out.push_back(Exclude{node, *why, excluded_.left(member.offer, now_)});
      member.knows_exclusion = true;
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
  const auto back = std::find_if(members_.begin(), members_.end(), [&](const auto& entry) {
    return is_usable(entry.second) && entry.second.knows_exclusion;
  });
  if (back == members_.end()) return {};
  back->second.knows_exclusion = false;
  credit_round(now);
  ledger_.charge_resize();
  return regroup({0, true, name_of(back->second.offer) + " joins again"}, now, now);
}

}  // namespace ddprun::rendezvous
