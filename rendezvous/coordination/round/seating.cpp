#include "rendezvous/coordination/round/seating.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "rendezvous/base/spelling.h"

namespace ddprun::rendezvous {
namespace {

constexpr int kNoRequest = std::numeric_limits<int>::max();

int requested_rank(const NodeOffer& offer) { return offer.requested_rank.value_or(kNoRequest); }

// A step has no other nodes than its tasks, and spares are asked for: one task more than the job takes is a mistake.
std::string surplus_of_step(const NodeOffer& newcomer, const Members& members, const RoundPolicy& policy,
                            bool resized) {
  if (newcomer.step.empty() || policy.nodes_min < policy.nodes_max || resized) return {};
  std::vector<std::string> inside;
  for (const auto& [node, member] : members.all())
    if (member.offer.step == newcomer.step && member.offer.unfit.empty() && !member.dismissal)
      inside.push_back(name_of(member.offer));
  if (static_cast<int>(inside.size()) < policy.nodes_max + policy.spares) return {};
  const std::size_t all = inside.size();
  inside.resize(std::min(all, kAwaitedNamesMax));
  return "of " + newcomer.step + " the job has its " + std::to_string(all) + " nodes, " + listed(inside, "and") +
         (inside.size() < all ? " among them" : "") + ", and " + name_of(newcomer) +
         " is one more: start one ddprun per node (srun --ntasks-per-node=1, mpirun --map-by ppr:1:node), or pass "
         "--spares for nodes that are to wait";
}

}  // namespace

std::optional<Outcome> refusal(const NodeOffer& newcomer, const Members& members, const RoundPolicy& policy,
                               bool resized) {
  const auto refused = [](std::string why) { return Outcome{Verdict::refused, 0, std::move(why), std::nullopt}; };
  if (!policy.fixed_ranks) {
    std::string why = surplus_of_step(newcomer, members, policy, resized);
    return why.empty() ? std::nullopt : std::optional(refused(std::move(why)));
  }
  const int rank = newcomer.requested_rank.value_or(0);
  const int nodes = policy.nodes_max + policy.spares;
  if (rank < 0 || rank >= nodes)
    return refused("node rank " + std::to_string(rank) + " of " + name_of(newcomer) + " is not one of the job's " +
                   std::to_string(nodes) + " (0 to " + std::to_string(nodes - 1) + ")");
  if (const Member* held = members.of_rank(rank))
    return refused("node rank " + std::to_string(rank) + " is requested by " + name_of(newcomer) +
                   " and already held by " + name_of(held->offer) + "; give each node a --node-rank of its own");
  return {};
}

std::vector<NodeId> by_rank(const Seating& from) {
  struct Entry {
    NodeId id;
    int requested, arrival;
  };
  std::vector<Entry> order, newcomers;
  std::set<NodeId> survivors;
  for (const NodeId id : from.last) {
    const Member* member = from.members.find(id);
    if (!member || !from.may_be_in(*member)) continue;
    order.push_back({id, requested_rank(member->offer), 0});
    survivors.insert(id);
  }
  for (const auto& [id, member] : from.members.all())
    if (from.may_be_in(member) && !survivors.contains(id))
      newcomers.push_back({id, requested_rank(member.offer), member.arrival});
  std::sort(newcomers.begin(), newcomers.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.requested, a.arrival) < std::pair(b.requested, b.arrival);
  });
  // A user may have resized the job. Who is left out could go on alone, unless the others are a quorum: as many stay.
  if (auto most = static_cast<std::size_t>(from.policy.nodes_max); order.size() > most) {
    std::set<NodeId> first;
    for (std::size_t i = 0; i < most; ++i) first.insert(order[i].id);
    for (; most < order.size() && !from.is_quorum(first); ++most) first.insert(order[most].id);
    order.resize(most);
  }
  const std::size_t room =
      static_cast<std::size_t>(from.policy.nodes_max) - std::min<std::size_t>(order.size(), from.policy.nodes_max);
  if (newcomers.size() > room) newcomers.resize(room);
  const bool head_stays = !from.policy.fixed_ranks && !order.empty();
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

}  // namespace ddprun::rendezvous
