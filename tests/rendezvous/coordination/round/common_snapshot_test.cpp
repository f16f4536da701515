#include "rendezvous/coordination/round/common_snapshot.h"

#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

using Held = std::vector<HeldSnapshot>;

ControlAddress agent_of(NodeId node) { return {"host" + std::to_string(node), 29500}; }

std::vector<RoundNode> round_of(const std::vector<NodeId>& ids, int workers = 1) {
  std::vector<RoundNode> out;
  for (const NodeId id : ids)
    out.push_back({.id = id, .workers = workers, .first_rank = static_cast<int>(out.size()) * workers});
  return out;
}

std::optional<CommonSnapshot> common(const std::map<NodeId, Held>& held, const std::vector<RoundNode>& nodes) {
  std::vector<SnapshotsOfNode> holders;
  for (const auto& [id, of_node] : held) holders.push_back({id, agent_of(id), &of_node});
  return newest_common_snapshot(holders, nodes);
}

std::vector<NodeId> holders(const std::optional<CommonSnapshot>& kept) {
  std::vector<NodeId> out;
  for (const auto& holder : kept.value().holders) {
    CHECK(holder.agent == agent_of(holder.node));
    out.push_back(holder.node);
  }
  return out;
}

}  // namespace

TEST_CASE("the lost node's rank is taken from the node after it", "[copies]") {
  // Node 2 is lost, and node 9 takes rank 2; node 3's rank moves up.
  const std::map<NodeId, Held> held{
      {1, {{0, 3, 1, 5}, {0, 3, 1, 6}, {2, 3, 1, 5}, {2, 3, 1, 6}}},
      {3, {{2, 3, 1, 5}, {2, 3, 1, 6}, {1, 3, 1, 4}, {1, 3, 1, 5}}},
  };
  const auto kept = common(held, round_of({1, 3, 9}));
  REQUIRE(kept);
  CHECK(kept->round == 1);
  CHECK(kept->step == 5);
  CHECK(holders(kept) == std::vector<NodeId>{1, 3, 1});
}

TEST_CASE("a step of an older round does not stand for the same step of a later one", "[copies]") {
  const std::map<NodeId, Held> held{{1, {{0, 2, 1, 7}, {0, 2, 2, 8}}}, {2, {{1, 2, 1, 7}, {1, 2, 1, 8}}}};
  const auto kept = common(held, round_of({1, 2}));
  REQUIRE(kept);
  CHECK(kept->step == 7);
  const std::map<NodeId, Held> both{{1, {{0, 2, 1, 9}, {0, 2, 2, 8}}}, {2, {{1, 2, 1, 9}, {1, 2, 2, 8}}}};
  CHECK(common(both, round_of({1, 2}))->round == 2);  // which began again before that step
}

TEST_CASE("snapshots of another world size, or of too few ranks, are of no use", "[copies]") {
  const std::map<NodeId, Held> held{{1, {{0, 2, 1, 7}}}, {2, {{1, 2, 1, 7}}}};
  CHECK(common(held, round_of({1, 2})));
  CHECK_FALSE(common(held, round_of({1, 2, 3})));
  CHECK_FALSE(common(held, round_of({1})));
  CHECK_FALSE(common({{1, {{0, 2, 1, 7}, {5, 2, 1, 7}}}}, round_of({1, 2})));
  CHECK_FALSE(common({}, round_of({1, 2})));
}

TEST_CASE("each node gets its ranks' part, and no address for what it has", "[copies]") {
  Round round{.number = 4, .nodes = round_of({1, 2}, 2)};
  round.nodes[0].control = agent_of(1);
  round.nodes[1].control = agent_of(2);
  round.kept = CommonSnapshot{3, 41, {{1, agent_of(1)}, {2, agent_of(2)}, {2, agent_of(2)}, {7, agent_of(7)}}};
  const std::vector<Seat> all = seats(round);
  CHECK(all[0].kept == SeatSnapshot{3, 41, {{}, agent_of(2)}});
  CHECK(all[1].kept == SeatSnapshot{3, 41, {{}, agent_of(7)}});
  CHECK(all[0].next_agent == agent_of(2));
  CHECK(all[1].next_agent == agent_of(1));
  CHECK(seats(Round{.number = 1, .nodes = round_of({1})}).front().next_agent == ControlAddress{});
}

// The rule of keep(copy=True), step by step: a rank begins a snapshot once its last one is at the next node, and is at
// most one ahead of the others. Three slots are kept here and there. Whoever is lost, all ranks have a step.
TEST_CASE("after the loss of any node at any moment all ranks have one of their last two snapshots", "[copies]") {
  std::mt19937_64 random(first_seed());
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int i = 0; i < often(2000); ++i) {
    const std::size_t nodes = 2 + below(3), workers = 1 + below(2), ranks = nodes * workers;
    struct Rank {
      std::uint64_t kept = 0, begun = 0, copied = 0, copying = 0;
      std::set<std::uint64_t> own = {}, there = {};
    };
    std::vector<Rank> all(ranks);
    const auto make_room = [](std::set<std::uint64_t>& slots) {
      if (slots.size() == 3) slots.erase(slots.begin());
    };
    const auto oldest = [&] {
      std::uint64_t least = UINT64_MAX;
      for (const Rank& rank : all) least = std::min(least, rank.kept);
      return least;
    };
    for (std::size_t move = below(200); move > 0; --move) {
      Rank& rank = all[below(ranks)];
      const bool keeps = below(2) == 0;
      if (keeps && rank.begun > rank.kept) {
        rank.own.insert(rank.kept = rank.begun);
      } else if (keeps && rank.copied == rank.kept && oldest() >= rank.kept) {
        make_room(rank.own);
        rank.begun = rank.kept + 1;
      } else if (!keeps && rank.copying > rank.copied) {
        rank.there.insert(rank.copied = rank.copying);
      } else if (!keeps && rank.kept > rank.copied) {
        make_room(rank.there);
        rank.copying = rank.kept;
      }
    }
    if (oldest() < 2) continue;
    const std::size_t lost = below(nodes);
    std::map<NodeId, Held> held;
    const auto add = [&](std::size_t node, const std::set<std::uint64_t>& steps, std::size_t rank) {
      if (node != lost)
        for (const std::uint64_t step : steps)
          held[node + 1].push_back({static_cast<int>(rank), static_cast<int>(ranks), 1, step});
    };
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      add(rank / workers, all[rank].own, rank);
      add((rank / workers + 1) % nodes, all[rank].there, rank);
    }
    std::vector<NodeId> ids;
    for (std::size_t node = 0; node < nodes; ++node) ids.push_back(node == lost ? 99 : node + 1);
    const auto kept = common(held, round_of(ids, static_cast<int>(workers)));
    INFO(nodes << " nodes, " << workers << " workers, node " << lost << " is lost, all have kept " << oldest());
    REQUIRE(kept);
    REQUIRE(kept->step + 1 >= oldest());
  }
}
