// Jobs of several nodes over test hosts lose workers, agents, nodes and links, and continue training.
#include <signal.h>

#include <functional>

#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/catch.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

// The goal for a change is 2 s (tests/bench/regroup.py shows the figures). The limit allows for a busy machine, but is
// below the lease, to detect a change that waits for it. After a repaired link a SYN may just have been lost.
constexpr auto kRegroupLimit = 4500ms, kMendLimit = 10'000ms;

Training change(HostJob& job, const std::string& what, int world, const std::function<void()>& make) {
  return change(job, what, world, kRegroupLimit, make);
}

}  // namespace

TEST_CASE("whatever is killed on a host, the job trains on in a new round", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3"));
  for (const int host : {0, 1, 2}) job.start(host, {"--node-rank=" + std::to_string(host)});
  CHECK(job.wait_for_world(3).round == 1);

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
  std::vector<std::string> options = elastic_over_hosts("2:3");
  options.insert(options.begin(), {"--exclude-after=1", "--exclude-for=8"});
  HostJob job(3, options);
  for (const int host : {0, 1, 2}) job.start(host, {"--node-rank=" + std::to_string(host)});
  job.wait_for_world(3);
  const Training two = change(job, "a worker killed", 2, [&] { ::kill(job.worker(0), SIGKILL); });
  CHECK(two.hosts == std::map<int, std::string>{{0, "host1"}, {1, "host2"}});
  CHECK_THAT(job[0].err(), Catch::Contains("this node is excluded"));
  CHECK(job.wait_for_world(3, two.since + 1s).hosts.size() == 3);
  job.all_end_well({0, 1, 2});
}

TEST_CASE("a host out of reach ends its workers within the lease, and takes part again when it is back", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3"));
  for (const int host : {0, 1, 2}) job.start(host);
  job.wait_for_world(3);
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

TEST_CASE("nodes end alike, though the coordinator's host dies when only some have been told of the end", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3"));
  for (const int host : {0, 1, 2}) job.start(host);
  job.wait_for_world(3);
  job.hosts.cut(2);
  job[0].kill(SIGINT);
  job[1].wait_for_output("^told", 30s);
  job.hosts.cut(0);  // what its kernel has not sent yet is lost, too
  job.kill_node(0);
  job.hosts.mend({2});
  CHECK(job[1].wait_exit(30s) == exited(130));
  CHECK(job[2].wait_exit(30s) == exited(130));
}
