#include "tests/simulation/cluster.h"

#include <map>

#include "tests/support/catch.h"
#include "tests/support/soak.h"

using namespace ddprun;
using namespace ddprun::test;

namespace {

// What the cluster did, where it did something wrong.
std::string wrong(const ClusterOptions& options) {
  Cluster cluster(options);
  try {
    cluster.run();
  } catch (const std::logic_error& error) {
    return cluster.transcript() + error.what();
  }
  for (const Outcome& outcome : cluster.outcomes())
    if (outcome.verdict != cluster.outcomes().front().verdict || outcome.reason != cluster.outcomes().front().reason)
      return cluster.transcript() + "agents end differently: " + outcome.reason;
  return "";
}

ClusterOptions troubled(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  ClusterOptions options{.agents = 1 + up_to(8), .seed = seed};
  options.fixed_ranks = up_to(3) == 0;
  options.nodes_max = options.fixed_ranks ? options.agents : options.agents + up_to(3);
  options.nodes_min = options.fixed_ranks ? options.agents : 1 + up_to(options.agents - 1);
  options.kills = up_to(3);
  options.cuts = up_to(4);
  options.leaves = up_to(2);
  options.joins = up_to(4);
  return options;
}

int broken_among(int seeds, ClusterOptions (*options)(std::uint64_t), void (*how)(ClusterOptions&)) {
  int broken = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    ClusterOptions changed = options(static_cast<std::uint64_t>(seed));
    how(changed);
    broken += wrong(changed) != "";
  }
  return broken;
}

}  // namespace

TEST_CASE("whatever fails when, every agent ends with the same outcome and no worker is left", "[cluster]") {
  std::map<Verdict, int> ends;
  int restarts = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Cluster cluster({.agents = 12, .nodes_min = 12, .nodes_max = 12, .seed = seed, .failure = 0.6});
    REQUIRE_NOTHROW(cluster.run());
    REQUIRE(cluster.outcomes().size() == 12);
    for (const Outcome& outcome : cluster.outcomes()) CHECK(outcome.reason == cluster.outcomes().front().reason);
    restarts += cluster.charged().spent();
    ++ends[cluster.outcomes().front().verdict];
  }
  // the seeds reach every kind of end
  CHECK(ends[Verdict::success] > 100);
  CHECK(ends[Verdict::worker_failed] > 10);
  CHECK(ends[Verdict::interrupted] > 2);
  CHECK(restarts > 100);
}

TEST_CASE("nodes are killed, cut off, asked to leave and joined by others: one round at a time, and one end for all",
          "[cluster]") {
  Series("simulation: 1 to 9 agents, nodes come, go, die and are out of reach: invariants hold", 200, 10'000)
      .run([](std::uint64_t seed) { REQUIRE(wrong(troubled(seed)) == ""); });
}

TEST_CASE("the simulation notices when a lost node's workers are not waited for", "[cluster]") {
  CHECK(broken_among(200, troubled, [](ClusterOptions& options) { options.fence = false; }) > 0);
}

TEST_CASE("the simulation notices when a node out of reach lets its workers live", "[cluster]") {
  CHECK(broken_among(200, troubled, [](ClusterOptions& options) { options.lease = false; }) > 0);
}

TEST_CASE("a thousand agents take a second of ours for an hour of theirs", "[cluster]") {
  Cluster cluster({.agents = 1000,
                   .nodes_min = 1000,
                   .nodes_max = 1000,
                   .seed = 1,
                   .failure = 0.9,
                   .interrupt = 0,
                   .max_restarts = 5});
  REQUIRE_NOTHROW(cluster.run());
  CHECK(cluster.outcomes().size() == 1000);
  CHECK(cluster.charged().spent() > 0);
}

TEST_CASE("equal seeds give equal runs", "[cluster]") {
  Cluster one(troubled(5)), two(troubled(5));
  one.run();
  two.run();
  CHECK(one.transcript() == two.transcript());
}
