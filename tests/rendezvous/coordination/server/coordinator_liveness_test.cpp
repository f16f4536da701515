#include "rendezvous/coordination/server/coordinator_liveness.h"

#include "tests/support/test.h"

namespace {

const TimePoint t0{1000s};
constexpr auto kTestLease = 5s;
constexpr NodeId kSelf = 1;

// Elected by the round of these three, of which one is the coordinator's own.
Coordinator elected() {
  Round record{.number = 1, .term = 1, .coordinator = kSelf};
  for (const NodeId id : {kSelf, NodeId{2}, NodeId{3}}) record.nodes.push_back({.id = id});
  return Coordinator({.nodes_min = 3, .nodes_max = 3}, t0, 0, kSelf, {2, record, t0});
}

}  // namespace

TEST_CASE("an agent is silent once it sent nothing for the lease, and its workers are dead a second later",
          "[liveness]") {
  CoordinatorLiveness liveness(kTestLease, kSelf);
  liveness.add(2, t0);
  liveness.add(3, t0);
  liveness.heard(3, t0 + 4s);
  CHECK(liveness.silent(t0 + 4999ms).empty());
  CHECK(liveness.silent(t0 + 5s) == std::vector<NodeId>{2});
  CHECK(liveness.remove(2) == t0 + 5s + kLeaseMargin);
  CHECK(liveness.remove(3) == t0 + 9s + kLeaseMargin);
  CHECK(liveness.silent(t0 + 60s).empty());
}

TEST_CASE("a quorum's contact counts by what agents have answered, not by when they did", "[liveness]") {
  const Coordinator coordinator = elected();
  CoordinatorLiveness liveness(kTestLease, kSelf);
  liveness.begin();
  for (const NodeId id : {kSelf, NodeId{2}, NodeId{3}}) liveness.followed(id, t0);
  CHECK(liveness.quorum_age(coordinator, t0 + 1s) == 1s);
  liveness.add(2, t0 + 2s);  // its hello came
  CHECK(liveness.quorum_age(coordinator, t0 + 3s) == 1s);
  liveness.on_heartbeat(2, {.number = 1, .answered = 0}, t0 + 4s);  // it has read what its hello was answered
  CHECK(liveness.quorum_age(coordinator, t0 + 5s) == 3s);
  liveness.on_heartbeat(2, {.number = 2, .answered = 1}, t0 + 6s);
  CHECK(liveness.quorum_age(coordinator, t0 + 7s) == 3s);
  CHECK(liveness.quorum_age(coordinator, t0 + 60s) == 2 * kTestLease);
}

TEST_CASE("a coordinator that begins has been in contact with nobody", "[liveness]") {
  CoordinatorLiveness liveness(kTestLease, kSelf);
  liveness.begin();
  CHECK(liveness.quorum_age(elected(), t0) == 2 * kTestLease);
}
