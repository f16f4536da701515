#include "tests/simulation/etcd_cluster.h"

#include "tests/support/sanitized.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

// What is wrong; empty: nothing.
std::string etcd_failure_of(const EtcdClusterOptions& options) {
  EtcdCluster cluster(options);
  try {
    cluster.run();
    cluster.check_end();
  } catch (const std::logic_error& error) {
    return cluster.transcript() + error.what();
  }
  return "";
}

void expect_no_etcd_failure(const EtcdClusterOptions& options) {
  const std::string transcript = etcd_failure_of(options);
  if (transcript.empty()) return;
  std::fprintf(stderr, "seed %llu:\n%s\n", static_cast<unsigned long long>(options.seed), transcript.c_str());
  FAIL("seed " << options.seed);
}

EtcdClusterOptions etcd_faults(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  EtcdClusterOptions options{.agents = 1 + up_to(6), .seed = seed};
  options.nodes_min = 1 + up_to((options.agents - 1) / 2);
  options.joins = up_to(3);
  options.nodes_max = options.agents + options.joins;
  options.kills = up_to(4);
  options.pauses = up_to(3);
  options.leaves = up_to(2);
  options.cuts = up_to(3);
  options.etcd_cuts = up_to(4);
  options.both_cuts = up_to(3);
  options.outages = up_to(2);
  options.slow_phases = up_to(2);
  options.leader_changes = up_to(2);
  options.kill_at_end = 0.3;
  return options;
}

EtcdClusterOptions frequent_etcd_faults(std::uint64_t seed) {
  EtcdClusterOptions options = etcd_faults(seed);
  options.agents = 3 + static_cast<int>(seed % 3);
  options.nodes_min = 1;
  options.nodes_max = options.agents + options.joins;
  options.period_ms = 120'000;
  options.kills = options.pauses = 3;
  options.cuts = options.both_cuts = options.etcd_cuts = 6;
  options.slow_phases = 4;
  return options;
}

// Its clock is fast, and the coordinator's answers from it are late.
EtcdClusterOptions slow_renewals(std::uint64_t seed) {
  EtcdClusterOptions options{.agents = 3, .nodes_max = 3, .seed = seed, .failure = 0, .etcd_rate = 2};
  options.divisions = 4;
  options.coordinator_share = 0;
  options.stubborn_one_in = 1;
  options.last_call = 500ms;
  return options;
}

// Etcd alone is in trouble.
EtcdClusterOptions etcd_alone(std::uint64_t seed) {
  EtcdClusterOptions options = etcd_faults(seed);
  options.kills = options.pauses = options.leaves = options.cuts = options.both_cuts = 0;
  options.kill_at_end = 0;
  options.etcd_cuts = 6;
  options.outages = 4;
  options.slow_phases = 3;
  return options;
}

}  // namespace

TEST_CASE("one round runs at a time while jobs on etcd lose nodes, coordinators and etcd", "[etcd-cluster]") {
  Series(
      "simulation on etcd: 1 to 7 agents, etcd's clock at half or twice their rate, everything fails: invariants hold",
      40, 10'000)
      .run([](std::uint64_t seed) { expect_no_etcd_failure(etcd_faults(seed)); });
}

TEST_CASE("one round runs at a time on etcd in much trouble within two minutes", "[etcd-cluster]") {
  Series("simulation on etcd: 3 to 5 agents, thirty faults in two minutes: invariants hold", 20, 10'000)
      .run([](std::uint64_t seed) { expect_no_etcd_failure(frequent_etcd_faults(seed)); });
}

TEST_CASE("no worker is ended for etcd's sake", "[etcd-cluster]") {
  Series("simulation on etcd: etcd is down, cut off and slow: no worker ends, no coordinator changes", 30, 10'000)
      .run([](std::uint64_t seed) { expect_no_etcd_failure(etcd_alone(seed)); });
}

TEST_CASE("a newcomer that reaches etcd and no node of a round does not end it", "[etcd-cluster]") {
  Series("simulation on etcd: newcomers reach etcd alone, and the coordinator does not: no worker ends", 20, 5'000)
      .run([](std::uint64_t seed) {
        EtcdClusterOptions options = etcd_alone(seed);
        options.agents = 2 + static_cast<int>(seed % 4);
        options.nodes_min = 2;  // of whom one reaches etcd
        options.nodes_max = options.agents + 2;
        options.etcd_cuts = 1;
        options.etcd_cut_ms = 10 * options.period_ms;  // nearly always to the end
        options.failure = 0;
        options.joins = 0;
        options.cut_from_etcd_too = 0;
        options.outages = 0;
        options.slow_phases = 0;
        options.coordinator_share = 1;
        options.strangers = 2;
        expect_no_etcd_failure(options);
      });
}

TEST_CASE("a job on etcd goes on where all its nodes have died, with its ledger and round numbers", "[etcd-cluster]") {
  Series("simulation on etcd: all nodes die and others start: the job goes on", 20, 2'000).run([](std::uint64_t seed) {
    EtcdClusterOptions options = etcd_faults(seed);
    options.all_die = true;
    expect_no_etcd_failure(options);
  });
}

// A newcomer that asks an empty etcd first begins another job: nobody can tell it.
TEST_CASE("a round goes on though etcd has lost all its data", "[etcd-cluster]") {
  Series("simulation on etcd: etcd loses all its data, nobody comes: no round is ended", 20, 2'000)
      .run([](std::uint64_t seed) {
        EtcdClusterOptions options = etcd_alone(seed);
        options.joins = 0;
        options.loses_data = true;
        expect_no_etcd_failure(options);
      });
}

TEST_CASE("the simulation on etcd notices code that is wrong in one of these ways", "[etcd-cluster][release-only]") {
  const auto [what, bug] = GENERATE(table<std::string, EtcdBug>({
      {"a claim does not compare revisions", EtcdBug::claim_without_compare},
      {"a write of the record does not compare revisions", EtcdBug::store_without_compare},
      {"a lease counts from the arrival of its renewal's answer", EtcdBug::lease_believed_after_pause},
      {"a newcomer forms a round at once", EtcdBug::no_wait_for_members},
      {"a round starts though etcd does not have it", EtcdBug::not_held_until_stored},
      {"a node out of reach lets its workers live", EtcdBug::no_fence},
  }));
  INFO(what);
  std::uint64_t seed = 0;
  const auto is_found = [&, wrong = bug] {
    EtcdClusterOptions options =
        wrong == EtcdBug::lease_believed_after_pause ? slow_renewals(seed) : frequent_etcd_faults(seed);
    options.bug = wrong;
    return etcd_failure_of(options) != "";
  };
  while (seed < 3000 && !is_found()) ++seed;
  CHECK(seed < 3000);
}

TEST_CASE("a thousand nodes ask etcd little, at rest and when their coordinator dies", "[etcd-cluster][release-only]") {
  constexpr int kNodes = 1'000;
  EtcdCluster cluster({.agents = kNodes, .nodes_min = kNodes - 1, .nodes_max = kNodes, .failure = 0, .clock_error = 1});
  cluster.run(30s);
  REQUIRE(cluster.rounds() == 1);
  const int before = cluster.etcd.requests();
  cluster.run(90s);
  const int at_rest = cluster.etcd.requests() - before, records = cluster.etcd.records_read();
  cluster.kill_coordinator();
  cluster.run(200s);  // some workers are given their time to end
  CHECK(cluster.rounds() == 2);
  const int in_failover = cluster.etcd.requests() - before - at_rest;
  const int records_in_failover = cluster.etcd.records_read() - records;
  INFO("at rest " << at_rest << ", in the failover " << in_failover << ", the record " << records_in_failover);
  CHECK(at_rest <= 3 * kNodes);
  CHECK(in_failover <= 3 * kNodes);
  CHECK(records_in_failover <= kNodes / 10);
}
