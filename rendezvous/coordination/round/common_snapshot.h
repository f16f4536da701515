// Which snapshot in memory all ranks of a round go on from: of those with copies on other nodes, the newest one that
// every rank has somewhere. Newest: kept in the latest round, then at the highest step. One that a rank kept in an
// older round never stands for a later round's of the same step: ranks that began there again may have come to another
// state.
//
// Pure. Only snapshots of a world of the same size count, each for its rank, wherever that rank runs now.
#pragma once
#include <optional>
#include <vector>

#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

struct SnapshotsOfNode {
  NodeId node = 0;
  ControlAddress agent = {};
  const std::vector<HeldSnapshot>* held = nullptr;
};

// `holders`: nodes that can be asked, of the round or not; `nodes`: the round's, by rank. A rank is sent to its own
// node if that has it, else to the first of the holders. Empty: there is no such snapshot.
std::optional<CommonSnapshot> newest_common_snapshot(const std::vector<SnapshotsOfNode>& holders,
                                                     const std::vector<RoundNode>& nodes);

}  // namespace ddprun::rendezvous
