// Jobs of several nodes over test hosts (support/hosts.h): how nodes find each other, and what they print if they
// cannot. For faults of a running job see hosts_fault_test.cpp.
#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/catch.h"
#include "tests/support/places.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

constexpr std::chrono::seconds kSentenceLimit{15};  // "within seconds", on a busy machine

std::string master_address(HostJob& job, int host) {
  return job[host].wait_for_output("^trains \\S+ (\\S+)", 30s).at(1);
}

}  // namespace

TEST_CASE("static nodes on hosts of their own, started in any order, form one world by their node ranks", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(5, static_over_hosts(5));
  for (const int host : {4, 2, 1, 3, 0}) job.start(host, {"--node-rank=" + std::to_string(host)});
  const Training training = job.wait_for_world(5);
  for (int rank = 0; rank < 5; ++rank) CHECK(training.hosts.at(rank) == Hosts::name(rank));
  CHECK(training.round == 1);
  CHECK(job.hosts.count() == 5);
  for (int host = 0; host < 5; ++host)  // one line in the log that they share
    CHECK(has(job[host].err(), "no token is set: anyone who can reach host0 can join this job") == (host == 0));
  job.all_end_well({0, 1, 2, 3, 4});
}

TEST_CASE("elastic nodes wait for the node at the endpoint, which may come last", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("3:3"));
  for (const int host : {2, 1}) job.start(host);
  for (const int host : {2, 1}) job[host].wait_for_output("host0:29400: Connection refused", 30s);
  job.start(0);
  CHECK(job.wait_for_world(3).round == 1);
  job.all_end_well({0, 1, 2});
}

TEST_CASE("workers are given an address of rank 0's node by which the others reach it", "[hosts]") {
  if (!hosts_or_skip()) return;
  struct Case {
    std::string endpoint, option, expected;
  };
  const auto [endpoint, option, expected] = GENERATE(
      Case{"10.99.0.10:29400", "", "10.99.0.10"}, Case{"[fd99::10]:29400", "", "fd99::10"},
      Case{"host0-v6:29400", "", "fd99::10"}, Case{"host0-v4:29400", "", "10.99.0.10"},
      Case{"host0:29400", "--interface=eth0", "10.99.0.1"}, Case{"[fd99::10]:29400", "--local-addr", "10.99.0.1"},
      Case{"10.99.0.10:29400", "--local-addr6", "fd99::1"});
  INFO(endpoint << " " << option);
  HostJob job(2, elastic_over_hosts("2:2", endpoint));
  for (const int host : {0, 1}) {
    const std::string value = option == "--local-addr6"  ? "--local-addr=" + Hosts::address6(host)
                              : option == "--local-addr" ? "--local-addr=" + Hosts::address(host)
                                                         : option;
    job.start(host, value.empty() ? Words{} : Words{value});
  }
  const Training training = job.wait_for_world(2);
  const std::string first = master_address(job, 0);
  CHECK(master_address(job, 1) == first);
  const std::string of_first_node = training.hosts.at(0) == "host0" ? "0" : "1";
  CHECK(first == (option.empty() ? expected.substr(0, expected.size() - 1) : expected) + of_first_node);
  job.all_end_well({0, 1});
}

// As Debian's installer configures it: the host's own name resolves to a loopback address.
TEST_CASE("where the coordinator's host knows itself as 127.0.1.1, the others are still given an address they reach",
          "[hosts]") {
  if (!hosts_or_skip()) return;
  const std::vector<std::string> options = GENERATE(elastic_over_hosts("2:2"), static_over_hosts(2));
  HostJob job(2, options);
  const auto names = job.folder.write("names", "127.0.0.1 localhost\n127.0.1.1 host0\n10.99.0.11 host1\n");
  Words node{"sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"", names, kDdprun};
  node.insert(node.end(), options.begin(), options.end());
  node.insert(node.end(), {"--node-rank=0", programs_folder() + "/host_worker"});
  job.start_command(0, node);
  job.start(1, {"--node-rank=1"});
  CHECK(job.wait_for_world(2).hosts.at(0) == "host0");
  const std::string address = master_address(job, 1);
  CHECK((address == Hosts::address(0) || address == Hosts::address6(0)));
  job.all_end_well({0, 1});
}

TEST_CASE("a host name that means addresses of both kinds leads to the coordinator", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("3:3", "host0:29400"));
  job.start(0);
  job.start(1, {"--rdzv-endpoint=host0-v4:29400"});
  job.start(2, {"--rdzv-endpoint=host0-v6:29400"});
  CHECK(job.wait_for_world(3).round == 1);
  job.all_end_well({0, 1, 2});
}

TEST_CASE("a node that cannot belong to the job is told the difference within seconds, and the job goes on",
          "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3"));
  for (const int host : {0, 1}) job.start(host, {"--rdzv-conf=last_call_timeout=1"});
  job.wait_for_world(2);
  const auto refused = [&](const Words& options, const std::string& program, const std::string& why) {
    Words words = elastic_over_hosts("2:3");
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(program);
    const Ended ended = job.start_command(2, job_of(words)).wait_exit(kSentenceLimit);
    CHECK(ended.code == 69);
    CHECK_THAT(ended.err, Catch::Contains(why));
  };
  refused({"--nnodes=2:4"}, programs_folder() + "/host_worker", "--nnodes is 2:4 here and 2:3 in the job");
  refused({}, "/bin/true", "host_worker");
  refused({"--rdzv-id=other", "--rdzv-conf=join_timeout=1"}, programs_folder() + "/host_worker",
          "host0:29400: it belongs to another job (--rdzv-id)");
  const auto before = job.beats().back().when;
  CHECK(job.wait_for_world(2, before).round == 1);
  job.all_end_well({0, 1});
}
