#include "rendezvous/coordinator.h"

#include <csignal>

#include "tests/support/catch.h"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

const TimePoint t0{};

NodeReady ready(NodeId node, int workers, std::uint16_t port = 1000) {
  return {node, {workers, "host" + std::to_string(node), port}};
}

template <class T>
T only(const std::vector<Order>& orders) {
  REQUIRE(orders.size() == 1);
  REQUIRE(std::holds_alternative<T>(orders.front()));
  return std::get<T>(orders.front());
}

WorkerFailed failure(int round, ExitStatus status, NodeId node = 0) { return {{round, node, 0, 0, status}}; }

}  // namespace

TEST_CASE("a job of one node forms its round at once", "[coordinator]") {
  Coordinator coordinator({.nodes = 1});
  const Round round = only<FormRound>(coordinator.on(ready(0, 4, 4711), t0)).round;
  CHECK(round.number == 1);
  CHECK(round.world_size() == 4);
  CHECK(round.master_host == "host0");
  CHECK(round.master_port == 4711);
  CHECK(round.restarts == 0);
}

TEST_CASE("a round waits for all nodes and adds up what each brings, in node order", "[coordinator]") {
  Coordinator coordinator({.nodes = 3});
  CHECK(coordinator.on(ready(2, 4), t0).empty());
  CHECK(coordinator.on(ready(0, 1, 99), t0).empty());
  const Round round = only<FormRound>(coordinator.on(ready(1, 2), t0)).round;
  CHECK(round.world_size() == 7);
  CHECK(round.master_port == 99);
  REQUIRE(round.find(2));
  CHECK(round.find(2)->first_rank == 3);
  CHECK(round.group_rank(2) == 2);
}

TEST_CASE("a failure ends the round, and the next one has a new number, a new store and the restart counted",
          "[coordinator]") {
  Coordinator coordinator({.nodes = 1});
  coordinator.on(ready(0, 2, 1000), t0);
  const auto ended = only<EndRound>(coordinator.on(failure(1, {.signal = SIGKILL}), t0 + 1s));
  CHECK(ended.round == 1);
  const Round round = only<FormRound>(coordinator.on(ready(0, 2, 2000), t0 + 1s)).round;
  CHECK(round.number == 2);
  CHECK(round.master_port == 2000);
  CHECK(round.restarts == 1);
}

TEST_CASE("a failure of a round that is over changes nothing", "[coordinator]") {
  Coordinator coordinator({.nodes = 1});
  coordinator.on(ready(0, 2), t0);
  coordinator.on(failure(1, {.signal = SIGKILL}), t0);
  CHECK(coordinator.on(failure(1, {.code = 1}), t0).empty());  // between the rounds
  coordinator.on(ready(0, 2), t0);
  CHECK(coordinator.on(failure(1, {.code = 1}), t0).empty());  // in the next one
  CHECK(coordinator.on(NodeDone{0, 1}, t0).empty());
}

TEST_CASE("the job succeeds when every node is done, not before", "[coordinator]") {
  Coordinator coordinator({.nodes = 2});
  coordinator.on(ready(0, 1), t0);
  coordinator.on(ready(1, 1), t0);
  CHECK(coordinator.on(NodeDone{1, 1}, t0).empty());
  CHECK(coordinator.on(NodeDone{1, 1}, t0).empty());
  CHECK(only<EndJob>(coordinator.on(NodeDone{0, 1}, t0)).outcome.verdict == Verdict::success);
  CHECK(coordinator.on(ready(0, 1), t0).empty());
}

TEST_CASE("the same failure twice ends the job with its cause, unless the round had lived long enough",
          "[coordinator]") {
  Coordinator coordinator({.nodes = 1});
  coordinator.on(ready(0, 1), t0);
  coordinator.on(NodeRunning{0, 1}, t0);
  only<EndRound>(coordinator.on(failure(1, {.code = 3}), t0 + 1s));
  coordinator.on(ready(0, 1), t0 + 1s);
  SECTION("it lived 9.9 s after its last exec") {
    coordinator.on(NodeRunning{0, 2}, t0 + 2s);
    const Outcome outcome = only<EndJob>(coordinator.on(failure(2, {.code = 3}), t0 + 11s + 900ms)).outcome;
    CHECK(outcome.verdict == Verdict::worker_failed);
    REQUIRE(outcome.cause);
    CHECK(outcome.cause->round == 2);
  }
  SECTION("it lived 10 s") {
    coordinator.on(NodeRunning{0, 2}, t0 + 2s);
    only<EndRound>(coordinator.on(failure(2, {.code = 3}), t0 + 12s));
  }
  SECTION("it was young, and its workers had told of a step") {
    coordinator.on(NodeRunning{0, 2}, t0 + 2s);
    only<EndRound>(coordinator.on(WorkerFailed{{2, 0, 0, 0, {.code = 3}}, true}, t0 + 3s));
  }
  SECTION("it was old, and its workers, who would tell, had told of none") {
    coordinator.on(NodeRunning{0, 2}, t0 + 2s);
    only<EndJob>(coordinator.on(WorkerFailed{{2, 0, 0, 0, {.code = 3}}, false}, t0 + 60s));
  }
  SECTION("its workers had not all been started") { only<EndJob>(coordinator.on(failure(2, {.code = 3}), t0 + 60s)); }
}

TEST_CASE("a failure that repeats after progress is waited out before the next round", "[coordinator]") {
  Coordinator coordinator({.nodes = 1, .restarts = {.max_restarts = 5}});
  TimePoint now = t0;
  for (int round = 1; round <= 2; ++round) {
    coordinator.on(ready(0, 1), now);
    coordinator.on(NodeRunning{0, round}, now);
    only<EndRound>(coordinator.on(failure(round, {.signal = SIGKILL}), now += 11s));
  }
  CHECK_FALSE(coordinator.next_deadline());  // nobody is ready yet
  CHECK(coordinator.on(ready(0, 1), now).empty());
  REQUIRE(coordinator.next_deadline());
  CHECK(*coordinator.next_deadline() > now);
  CHECK(coordinator.on(CoordinatorTick{}, now).empty());
  only<FormRound>(coordinator.on(CoordinatorTick{}, *coordinator.next_deadline()));
}

TEST_CASE("an interruption ends the job in every state", "[coordinator]") {
  Coordinator coordinator({.nodes = 1});
  if (GENERATE(false, true)) coordinator.on(ready(0, 1), t0);
  const Outcome outcome = only<EndJob>(coordinator.on(NodeInterrupted{0, SIGINT}, t0)).outcome;
  CHECK(outcome.verdict == Verdict::interrupted);
  CHECK(outcome.signal == SIGINT);
}
