#include "rendezvous/coordination/round/common_snapshot.h"

#include <map>
#include <utility>

namespace ddprun::rendezvous {
namespace {

using Stamp = std::pair<int, std::uint64_t>;           // round, step
using ByRank = std::map<int, const SnapshotsOfNode*>;  // who has it

std::vector<NodeId> node_of_each_rank(const std::vector<RoundNode>& nodes) {
  std::vector<NodeId> out;
  for (const RoundNode& node : nodes) out.insert(out.end(), static_cast<std::size_t>(node.workers), node.id);
  return out;
}

}  // namespace

std::optional<CommonSnapshot> newest_common_snapshot(const std::vector<SnapshotsOfNode>& holders,
                                                     const std::vector<RoundNode>& nodes) {
  const std::vector<NodeId> node_of = node_of_each_rank(nodes);
  std::map<Stamp, ByRank> all;
  for (const SnapshotsOfNode& holder : holders)
    for (const HeldSnapshot& held : *holder.held) {
      const auto rank = static_cast<std::size_t>(held.rank);
      if (static_cast<std::size_t>(held.world_size) != node_of.size() || rank >= node_of.size()) continue;
      const SnapshotsOfNode*& known = all[{held.round, held.step}][held.rank];
      if (!known || holder.node == node_of[rank]) known = &holder;
    }
  for (auto newest = all.rbegin(); newest != all.rend(); ++newest) {
    const auto& [stamp, by_rank] = *newest;
    if (by_rank.size() != node_of.size()) continue;
    CommonSnapshot out{stamp.first, stamp.second, {}};
    for (const auto& [rank, holder] : by_rank) out.holders.push_back({holder->node, holder->agent});
    return out;
  }
  return {};
}

}  // namespace ddprun::rendezvous
