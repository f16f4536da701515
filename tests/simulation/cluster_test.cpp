#include "tests/simulation/cluster.h"

#include "tests/support/sanitized.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

// What the cluster did wrong; empty if nothing.
std::string failure_of(const ClusterOptions& options) {
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

// Prints what happened; the seed reproduces it. (Catch would wrap its lines.)
void expect_no_failure(const ClusterOptions& options) {
  const std::string transcript = failure_of(options);
  if (transcript.empty()) return;
  std::fprintf(stderr, "seed %llu:\n%s\n", static_cast<unsigned long long>(options.seed), transcript.c_str());
  FAIL("seed " << options.seed);
}

ClusterOptions random_faults(std::uint64_t seed) {
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
  options.coordinator_faults = up_to(2);
  options.kill_at_end = 0.3;
  return options;
}

ClusterOptions standing_loops(std::uint64_t seed) {
  ClusterOptions options = random_faults(seed);
  options.stalls = 6;
  return options;
}

ClusterOptions left_out_nodes(std::uint64_t seed) {
  ClusterOptions options = random_faults(seed);
  options.failure = 0.7;
  options.max_restarts = 30;
  options.exclude_after = 1;
  return options;
}

ClusterOptions acting_users(std::uint64_t seed) {
  ClusterOptions options = random_faults(seed);
  options.failure = 0.5;
  options.max_restarts = 30;
  options.acts = 12;
  options.slow_starts = 0.5;
  return options;
}

ClusterOptions hanging_workers(std::uint64_t seed) {
  ClusterOptions options = random_faults(seed);
  options.hang = 0.8;
  options.max_restarts = 30;
  return options;
}

// Everything happens in a minute and a half, most of it to the coordinator.
ClusterOptions frequent_faults(std::uint64_t seed) {
  ClusterOptions options = random_faults(seed);
  options.agents = 3 + static_cast<int>(seed % 4);
  options.fixed_ranks = false;
  options.nodes_min = 1;
  // A new node at the first place waits for more, and receives announcements.
  options.nodes_max = options.agents + options.joins;
  options.fault_period_ms = 90'000;
  options.kills = 2;
  options.cuts = 12;
  options.coordinator_faults = 4;
  return options;
}

ClusterOptions frequent_stalls(std::uint64_t seed) {
  ClusterOptions options = frequent_faults(seed);
  options.kills = options.leaves = options.coordinator_faults = 0;
  options.cuts = 20;
  options.stalls = 30;
  return options;
}

// The coordinator dies as soon as it has decided the job's end, mostly without other faults.
ClusterOptions coordinator_killed_at_end(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  ClusterOptions options{.agents = 2 + up_to(7), .seed = seed};
  options.fixed_ranks = up_to(1) == 0;
  options.nodes_max = options.agents;
  options.nodes_min = options.fixed_ranks ? options.agents : 1 + up_to(options.agents - 1);
  options.leaves = up_to(1);
  options.interrupt = 0.3;
  options.silent = 0.3;
  options.kill_at_end = 1;
  return options;
}

// Nodes are lost with their state and come back without it, name look-ups are slow, ports are busy.
ClusterOptions restarting_nodes(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  ClusterOptions options{.agents = 2 + up_to(5), .seed = seed, .interrupt = 0};
  options.fixed_ranks = up_to(1) == 0;
  options.nodes_max = options.agents;
  options.nodes_min = options.fixed_ranks ? options.agents : 1 + up_to(options.agents - 1);
  options.kills = 1 + up_to(5);
  options.coordinator_faults = up_to(3);
  options.cuts = up_to(1) * up_to(3);
  options.fault_period_ms = 60'000 + up_to(1) * up_to(240'000);
  options.places = 1 + up_to(2);
  options.returns = true;
  options.silent = 0.3;
  options.slow_names = 0.2;
  options.busy_ports = 0.3;
  return options;
}

#if DDPRUN_SANITIZED
constexpr int kMany = 200;  // ten times as slow
#else
constexpr int kMany = 1000;
#endif

ClusterOptions large(std::uint64_t seed) {
  return {.agents = kMany,
          .nodes_min = kMany * 9 / 10,
          .nodes_max = kMany,
          .seed = seed,
          .kills = 3,
          .cuts = 1,
          .leaves = 2,
          .joins = 3,
          .coordinator_faults = 2};
}

}  // namespace

TEST_CASE("whatever fails when, every agent ends with the same outcome and no worker is left", "[cluster]") {
  std::map<Verdict, int> ends;
  int restarts = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    Cluster cluster({.agents = 12, .nodes_min = 12, .nodes_max = 12, .seed = seed, .failure = 0.6});
    REQUIRE_NOTHROW(cluster.run());
    REQUIRE_FALSE(cluster.outcomes().empty());  // nodes that joined an interrupted job too late were not told
    for (const Outcome& outcome : cluster.outcomes()) CHECK(outcome.reason == cluster.outcomes().front().reason);
    restarts += cluster.charged().spent();
    ++ends[cluster.outcomes().front().verdict];
  }
  // the seeds reach every kind of end
  CHECK(ends[Verdict::success] > 30);
  CHECK(ends[Verdict::worker_failed] > 3);
  CHECK(ends[Verdict::interrupted] > 0);
  CHECK(restarts > 30);
}

TEST_CASE("one round runs at a time while nodes and coordinators are killed, cut off, asked to leave and joined",
          "[cluster]") {
  Series("simulation: 1 to 9 agents, nodes come, go, die and are out of reach: invariants hold", 200, 10'000)
      .run([](std::uint64_t seed) { expect_no_failure(random_faults(seed)); });
}

TEST_CASE("one round runs at a time while agents' loops stand and their links answer", "[cluster]") {
  Series("simulation: 1 to 9 agents, their loops stand, nodes come, go and die: invariants hold", 200, 10'000)
      .run([](std::uint64_t seed) { expect_no_failure(standing_loops(seed)); });
}

TEST_CASE("healthy nodes always form a round, whoever is lost and returns empty, however late names and ports are",
          "[cluster]") {
  Series("simulation: 2 to 7 agents, who dies returns empty, names and ports are late: healthy nodes form a round", 200,
         10'000)
      .run([](std::uint64_t seed) { expect_no_failure(restarting_nodes(seed)); });
}

TEST_CASE("one round runs at a time while machines are left out where workers failed, the coordinator's own among them",
          "[cluster]") {
  Series("simulation: 1 to 9 agents, nodes fail, are left out, come and go: invariants hold", 300, 10'000)
      .run([](std::uint64_t seed) { expect_no_failure(left_out_nodes(seed)); });
}

TEST_CASE("one round runs at a time, of the size that users want, while they restart, drain, admit and resize",
          "[cluster]") {
  Series("simulation: 1 to 9 agents, users act, nodes fail, come and go: invariants hold", 300, 10'000)
      .run([](std::uint64_t seed) { expect_no_failure(acting_users(seed)); });
  int done = 0;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 20; ++seed) {
    Cluster cluster(acting_users(seed));
    cluster.run();
    done += cluster.acts_done;
  }
  CHECK(done > 40);
}

TEST_CASE("ranks go on from snapshots that some node holds, whoever is lost", "[cluster][copies]") {
  int rounds = 0;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 100; ++seed) {
    ClusterOptions options = random_faults(seed);
    options.failure = 0.5;
    options.max_restarts = 30;
    expect_no_failure(options);
    Cluster again(options);
    again.run();
    rounds += again.rounds_from_snapshots();
  }
  CHECK(rounds > 20);
}

TEST_CASE("a worker that hangs is found, and no other one, whatever else happens", "[cluster]") {
  Series("simulation: 1 to 9 agents, workers hang, nodes come and go: only the one that hangs is blamed", 300, 10'000)
      .run([](std::uint64_t seed) { expect_no_failure(hanging_workers(seed)); });
  Cluster cluster({.agents = kMany, .nodes_min = kMany, .nodes_max = kMany, .seed = 1, .failure = 0, .hang = 1});
  cluster.run();
  CHECK(cluster.hangs_found == 4);  // the first start, and three restarts
}

TEST_CASE("nodes end alike, though the coordinator dies when only some have been told of the job's end", "[cluster]") {
  Series("simulation: 2 to 9 agents, the coordinator dies as soon as it has ended the job: all end alike", 400, 10'000)
      .run([](std::uint64_t seed) { expect_no_failure(coordinator_killed_at_end(seed)); });
}

TEST_CASE("one round runs at a time among a thousand agents in trouble", "[cluster]") {
  Series("simulation: 1,000 agents, and the coordinator in trouble: invariants hold", kMany == 1000 ? 5 : 1, 100)
      .run([](std::uint64_t seed) { expect_no_failure(large(seed)); });
}

TEST_CASE("the simulation notices code that is wrong in one of these ways", "[cluster][release-only]") {
  const auto [what, bug] = GENERATE(table<std::string, Bug>({
      {"a lost node's workers are not waited for", Bug::no_fence},
      {"a node out of reach lets its workers live", Bug::no_lease},
      {"an agent votes twice in a term", Bug::vote_twice},
      {"a candidate counts votes twice", Bug::count_twice},
      {"a coordinator goes on without a quorum", Bug::no_quorum},
      {"workers start before all nodes have confirmed the round", Bug::no_confirmation},
      {"nobody stands for election where the coordinator is gone", Bug::no_candidates},
      {"the workers of an agent whose loop stands are not ended", Bug::standing},
      {"a connection counts before the agent has said which workers it has", Bug::unspoken},
      {"a loop that goes on carries out orders of before", Bug::old_orders},
      {"workers see the keys that an earlier round left in the store", Bug::old_keys},
      {"a coordinator that begins stops for good where a node knows of a round", Bug::no_waiting},
      {"who was told the job's end leaves without a word to the others", Bug::silent_end},
  }));
  INFO(what);
  const auto options = bug == Bug::no_waiting                           ? restarting_nodes
                       : bug == Bug::silent_end                         ? coordinator_killed_at_end
                       : bug >= Bug::standing && bug <= Bug::old_orders ? frequent_stalls
                       : bug == Bug::no_candidates ? random_faults  // with so many faults it may give up
                                                   : frequent_faults;
  bool is_detected = false;
  const std::uint64_t most = bug == Bug::unspoken ? 3000 : 400;  // few runs meet all that it takes
  for (std::uint64_t seed = 0; seed < most && !is_detected; ++seed) {
    ClusterOptions changed = options(seed);
    changed.bug = bug;
    is_detected = failure_of(changed) != "";
  }
  CHECK(is_detected);
}

TEST_CASE("a thousand agents take a second of ours for an hour of theirs", "[cluster]") {
  Cluster cluster({.agents = kMany,
                   .nodes_min = kMany,
                   .nodes_max = kMany,
                   .seed = 1,
                   .failure = 0.9,
                   .interrupt = 0,
                   .max_restarts = 5});
  REQUIRE_NOTHROW(cluster.run());
  CHECK(cluster.outcomes().size() == kMany);
  CHECK(cluster.charged().spent() > 0);
}

TEST_CASE("equal seeds give equal runs", "[cluster]") {
  Cluster one(random_faults(5)), two(random_faults(5));
  one.run();
  two.run();
  CHECK(one.transcript() == two.transcript());
}
