#include "tests/simulation/cluster.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::test;

namespace {

void all_agree(const Cluster& cluster, int agents) {
  REQUIRE(static_cast<int>(cluster.outcomes().size()) == agents);
  for (const Outcome& outcome : cluster.outcomes()) {
    CHECK(outcome.verdict == cluster.outcomes().front().verdict);
    CHECK(outcome.reason == cluster.outcomes().front().reason);
  }
}

}  // namespace

TEST_CASE("whatever fails when, every agent ends with the same outcome and no worker is left", "[cluster]") {
  int successes = 0, failures = 0, interruptions = 0, restarts = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Cluster cluster({.agents = 12, .seed = seed, .failure = 0.6});
    REQUIRE_NOTHROW(cluster.run());
    all_agree(cluster, 12);
    restarts += cluster.restarts();
    switch (cluster.outcomes().front().verdict) {
      case Verdict::success:
        ++successes;
        break;
      case Verdict::worker_failed:
        ++failures;
        break;
      case Verdict::interrupted:
        ++interruptions;
        break;
    }
  }
  // the seeds reach every kind of end
  CHECK(successes > 100);
  CHECK(failures > 10);
  CHECK(interruptions > 2);
  CHECK(restarts > 100);
}

TEST_CASE("a thousand agents take a second of ours for an hour of theirs", "[cluster]") {
  Cluster cluster({.agents = 1000, .seed = 1, .failure = 0.9, .interrupt = 0, .max_restarts = 5});
  REQUIRE_NOTHROW(cluster.run());
  all_agree(cluster, 1000);
  CHECK(cluster.restarts() > 0);
}

TEST_CASE("equal seeds give equal runs", "[cluster]") {
  Cluster one({.agents = 20, .seed = 5, .failure = 0.9}), two({.agents = 20, .seed = 5, .failure = 0.9});
  one.run();
  two.run();
  CHECK(one.rounds() == two.rounds());
  CHECK(one.restarts() == two.restarts());
}
