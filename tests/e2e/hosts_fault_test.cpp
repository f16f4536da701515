// Jobs of several nodes over test hosts lose workers, agents, nodes and links, and continue training.
#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/e2e/standing_loop.h"
#include "tests/support/test.h"

namespace {

using Clock = std::chrono::steady_clock;

// The goal for a change is 2 s (tests/bench/regroup.py shows the figures). The limit allows for a busy machine, but is
// below the lease, to detect a change that waits for it. After a repaired link a SYN may just have been lost.
constexpr auto kRegroupLimit = 4500ms, kMendLimit = 10'000ms;
constexpr auto kLease = 5s, kAfterSilence = kLease + 3s + 6s;  // without messages the goal is the lease and 3 s

Training change(HostJob& job, const std::string& what, int world, const std::function<void()>& make) {
  return change(job, what, world, kRegroupLimit, make);
}

void start_all(HostJob& job, int hosts) {
  job.start(0, {"--node-rank=0"});
  job[0].wait_for_output("1 of ", 30s);  // the first node: it has the coordinator
  for (int host = 1; host < hosts; ++host) job.start(host, {"--node-rank=" + std::to_string(host)});
  CHECK(job.wait_for_world(hosts).round == 1);
}

}  // namespace

TEST_CASE("whatever is killed on a host, the job trains on in a new round", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3"));
  start_all(job, 3);

  const Training second = change(job, "a worker killed", 3, [&] { ::kill(job.worker(1), SIGKILL); });
  CHECK(second.round == 2);
  const Training third = change(job, "an agent killed", 2, [&] { ::kill(job.agent(2), SIGKILL); });
  CHECK(third.round == 3);
  CHECK(third.hosts == std::map<int, std::string>{{0, "host0"}, {1, "host1"}});
  CHECK(job[2].all_gone(10s));
  CHECK(change(job, "the killed agent's node started again", 3, [&] { job.start(2); }).hosts.at(2) == "host2");
  CHECK(change(job, "a node killed", 2, [&] { job.kill_node(1); }).round == 5);
  CHECK_THAT(job[0].err(), Catch::Contains("was lost: the other side closed the connection"));
  job.all_end_well({0, 2});
}

TEST_CASE("a host where a worker failed is left out, though it coordinates, and takes part again later", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, joined({elastic_over_hosts("2:3"), {"--exclude-after=1", "--exclude-for=8"}}));
  start_all(job, 3);
  const Training two = change(job, "a worker killed", 2, [&] { ::kill(job.worker(0), SIGKILL); });
  CHECK(two.hosts == std::map<int, std::string>{{0, "host1"}, {1, "host2"}});
  CHECK_THAT(job[0].err(), Catch::Contains("this node is excluded"));
  CHECK(job.wait_for_world(3, two.since + 1s).hosts.size() == 3);
  job.all_end_well({0, 1, 2});
}

TEST_CASE("a host out of reach ends its workers within the lease, and takes part again when it is back", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3"));
  start_all(job, 3);
  const Instant cut = Clock::now();
  job.hosts.cut(2);
  const Training without = job.wait_for_new_world(2, cut);
  CHECK(without.round == 2);
  CHECK(job.last_beat("host2", 1) < job.first_beat(2));
  tell_figure("a link cut, to the last beat behind it", milliseconds_between(cut, job.last_beat("host2", 1)));
  tell_figure("a link cut, to the others' training", milliseconds_between(cut, without.since));
  job[2].wait_for_output("host0:29400", 30s);
  CHECK(change(job, "the link mended", 3, kMendLimit, [&] { job.hosts.mend({2}); }).round == 3);
  job.all_end_well({0, 1, 2});
}

// With a quorum the others elect another coordinator, and train never while workers of the old round are alive.

TEST_CASE("the coordinator's node is killed: the others elect another one and train on", "[failover]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts(
                     "2:3", GENERATE(std::string("host0:29400"), std::string("host0:29400,host1:29400,host2:29400"))));
  start_all(job, 3);
  const bool power_cut = GENERATE(true, false);
  const Training training = change(job, "the coordinator killed", 2, [&] {
    if (power_cut)
      job.kill_node(0);
    else
      ::kill(job.agent(0), SIGKILL);
  });
  CHECK(training.hosts == std::map<int, std::string>{{0, "host1"}, {1, "host2"}});
  job.all_end_well({1, 2});
}

TEST_CASE("3|2: the coordinator's side has ended its workers before the majority's round begins", "[failover]") {
  if (!hosts_or_skip()) return;
  HostJob job(5, elastic_over_hosts("2:5"));
  start_all(job, 5);
  const Training training = change(job, "two of five apart, with the coordinator", 3, kAfterSilence, [&] {
    job.hosts.part({0, 1});
  });
  for (const char* host : {"host0", "host1"})
    CHECK(job.last_beat(host, training.round - 1) < job.first_beat(training.round));
  change(job, "the links mended", 5, kMendLimit, [&] { job.hosts.mend({0, 1}); });
  job.all_end_well({0, 1, 2, 3, 4});
}

TEST_CASE("the coordinator out of reach for less than the lease stays what it is, and so does a node whose loop stands",
          "[failover]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3"));
  start_all(job, 3);
  {
    const StandingLoop stands(job.agent(1));
    const Instant cut = Clock::now();
    job.hosts.cut(0);
    job.wait_for_world(3, cut + 1s);
    job.hosts.mend({0});
    CHECK(job.wait_for_world(3, cut + kLease + 2500ms).round == 1);
  }
  job.all_end_well({0, 1, 2});
}
