// Jobs over test hosts lose the coordinator's node: with a quorum the others elect another coordinator and continue
// training, and never while workers of the old round are alive.
#include <signal.h>

#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/catch.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLease = 5s;
// Goals: 2 s after a closed connection, the lease and 3 s without messages. The limits allow for a busy machine; the
// first is below the lease, to detect a failover that waits for it.
constexpr auto kAfterClose = 4500ms;
constexpr auto kAfterSilence = kLease + 3s + 6s;
constexpr auto kAfterMend = 10s;

// All hosts, so that no host is indispensable.
std::string endpoints(int hosts) {
  std::string list;
  for (int host = 0; host < hosts; ++host) list += (host ? ",host" : "host") + std::to_string(host) + ":29400";
  return list;
}

void start_all(HostJob& job, int hosts) {
  job.start(0, {"--node-rank=0"});
  job[0].wait_for_output("1 of ", 30s);  // the first node: it has the coordinator
  for (int host = 1; host < hosts; ++host) job.start(host, {"--node-rank=" + std::to_string(host)});
  CHECK(job.wait_for_world(hosts).round == 1);
}

// No worker on these hosts trained during the round.
void check_ended_before(HostJob& job, const std::vector<int>& hosts, int round) {
  for (const int host : hosts) {
    INFO(Hosts::name(host));
    CHECK(job.last_beat(Hosts::name(host), round - 1) < job.first_beat(round));
  }
}

void check_nobody_trains(HostJob& job, const std::vector<int>& hosts) {
  for (const int host : hosts)
    CHECK(eventually([&] { return job[host].mark(), job[host].processes("LOCAL_RANK", "0").empty(); }, kAfterSilence));
}

}  // namespace

TEST_CASE("the coordinator's node is killed: the others elect another one and train on", "[failover]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3", GENERATE(std::string("host0:29400"), endpoints(3))));
  start_all(job, 3);
  const bool power_cut = GENERATE(true, false);
  const Training training = change(job, "the coordinator killed", 2, kAfterClose, [&] {
    if (power_cut)
      job.kill_node(0);
    else
      ::kill(job.agent(0), SIGKILL);
  });
  CHECK(training.hosts == std::map<int, std::string>{{0, "host1"}, {1, "host2"}});
  job.all_end_well({1, 2});
}

TEST_CASE("one coordinator after the other is lost, as long as a majority is left", "[failover]") {
  if (!hosts_or_skip()) return;
  HostJob job(5, elastic_over_hosts("2:5", endpoints(5)));
  start_all(job, 5);
  for (int dead = 0; dead < 3; ++dead) {  // 4 of 5, 3 of 4, 2 of 3
    const Training training = change(job, "a coordinator killed", 4 - dead, kAfterClose, [&] { job.kill_node(dead); });
    CHECK(training.hosts.at(0) == Hosts::name(dead + 1));  // survivors keep their order
  }
  job.all_end_well({3, 4});
}

TEST_CASE("3|2: the coordinator's side has ended its workers before the majority's round begins", "[failover]") {
  if (!hosts_or_skip()) return;
  HostJob job(5, elastic_over_hosts("2:5"));
  start_all(job, 5);
  const Training training = change(job, "two of five apart, with the coordinator", 3, kAfterSilence, [&] {
    job.hosts.part({0, 1});
  });
  check_ended_before(job, {0, 1}, training.round);
  change(job, "the links mended", 5, kAfterMend, [&] { job.hosts.mend({0, 1}); });
  job.all_end_well({0, 1, 2, 3, 4});
}

TEST_CASE("2|2: the half that has the coordinator trains on, the other one does not", "[failover]") {
  if (!hosts_or_skip()) return;
  HostJob job(4, elastic_over_hosts("2:4"));
  start_all(job, 4);
  const Training training = change(job, "two of four apart", 2, kAfterSilence, [&] { job.hosts.part({2, 3}); });
  CHECK(training.hosts == std::map<int, std::string>{{0, "host0"}, {1, "host1"}});
  check_ended_before(job, {2, 3}, training.round);
  change(job, "the links mended", 4, kAfterMend, [&] { job.hosts.mend({2, 3}); });
  job.all_end_well({0, 1, 2, 3});
}

TEST_CASE("where no majority is left nobody trains, and all do once the links are mended", "[failover]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3"));
  start_all(job, 3);
  for (const int host : {0, 1, 2}) job.hosts.cut(host);
  check_nobody_trains(job, {0, 1, 2});
  change(job, "all links mended", 3, kAfterMend, [&] { job.hosts.mend({0, 1, 2}); });
  job.all_end_well({0, 1, 2});
}

TEST_CASE("the coordinator out of reach for less than the lease stays what it is", "[failover]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3"));
  start_all(job, 3);
  const Instant cut = Clock::now();
  job.hosts.cut(0);
  job.wait_for_world(3, cut + 1s);
  job.hosts.mend({0});
  CHECK(job.wait_for_world(3, cut + kLease + 1500ms).round == 1);
  job.all_end_well({0, 1, 2});
}
