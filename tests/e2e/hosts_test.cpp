// Jobs of several nodes over test hosts (support/hosts.h): how nodes find each other, and what they print if they
// cannot, also if only a slow or unresponsive name server knows them. For faults of a running job see
// hosts_fault_test.cpp.
#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

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

// As a public address of a cloud's machine, a container's mapped port or a service of Kubernetes.
TEST_CASE("rank 0 whose address reaches it by a translation leads the job, also if the way opens late", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, static_over_hosts(2, "host2"));
  const Words translation{"python3", source_folder() + "/tests/e2e/forwarder.py", "29500", "host0"};
  const bool late = GENERATE(false, true);
  if (!late) {
    job.start_command(2, translation);
    job.start_command(1, {"bash", "-c", "until true 2> /dev/null > /dev/tcp/host2/29500; do sleep 0.02; done"})
        .wait_exit(kLimit);
  }
  for (const int host : {0, 1}) job.start(host, {"--node-rank=" + std::to_string(host)});
  const std::string line = "host2 is not an address of host0, and does not lead here so far";
  if (late) {
    job[0].wait_for_output(line + " \\(Connection refused\\)", kLimit);
    job.start_command(2, translation);
  }
  CHECK(job.wait_for_world(2).hosts.at(0) == "host0");
  for (const int host : {0, 1})
    CHECK(master_address(job, host) == "127.0.0.1");  // the store is reached by the same way
  CHECK(count(job[0].err(), line) == (late ? 1 : 0));
  job.all_end_well({0, 1});
}

// As Debian's installer configures it: the host's own name resolves to a loopback address.
TEST_CASE("where the coordinator's host knows itself as 127.0.1.1, the others are still given an address they reach",
          "[hosts]") {
  if (!hosts_or_skip()) return;
  const std::vector<std::string> options = GENERATE(elastic_over_hosts("2:2"), static_over_hosts(2));
  HostJob job(2, options);
  const auto names = job.folder.write("names", "127.0.0.1 localhost\n127.0.1.1 host0\n10.99.0.11 host1\n");
  job.start_command(0, joined({{"sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"", names, kDdprun},
                               options,
                               {"--node-rank=0", programs_folder() + "/host_worker"}}));
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

// A look-up would take minutes here.
TEST_CASE("a node that waits for a name server says so, and ends at once when it is asked to", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(2, {});  // the name server is on host 1, and the meeting place's name in no /etc/hosts
  job.start_command(1, {"python3", source_folder() + "/tests/e2e/name_server.py"}).wait_for_output("serves", 30s);
  const std::string resolv_conf =
      job.folder.write("resolv.conf", "nameserver " + Hosts::address(1) + "\noptions timeout:30 attempts:5 ndots:0\n");
  const std::string switch_conf = job.folder.write("nsswitch.conf", "hosts: files dns\n");
  const std::string script =
      "unset RES_OPTIONS; mount --bind \"$0\" /etc/resolv.conf && mount --bind \"$1\" /etc/nsswitch.conf && "
      "shift && exec \"$@\"";
  Command& node = job.start_command(0, {"sh", "-c", script, resolv_conf, switch_conf, kDdprun, "--nnodes=2",
                                        "--node-rank=1", "--master-addr=head.cluster", "true"});
  node.wait_for_output("head.cluster:29500: its name cannot be looked up: no name server has answered", kLimit);
  node.kill(SIGTERM);
  CHECK(node.wait_exit(kLimit).code == 75);
}

namespace {

// Runs the command in a new network namespace, where lo is down.
Words without_loopback(const Words& command) { return joined({{"unshare", "--net"}, command}); }

}  // namespace

TEST_CASE("a meeting place that nobody has, or whose name nobody knows, is told of within seconds, and again",
          "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(1, {});
  const auto [options, why] = GENERATE(table<Words, std::string>(
      {{{"--nnodes=2", "--node-rank=1", "--master-addr=10.99.0.77"}, "10.99.0.77 is not an address of host0"},
       {{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=10.99.0.77:29400"},
        "10.99.0.77 is not an address of host0"},
       {{"--nnodes=2", "--node-rank=0", "--master-addr=nosuchhost"}, "nosuchhost:29500: its name cannot be looked up"},
       {{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=nosuchhost:29400"},
        "nosuchhost:29400: its name cannot be looked up"}}));
  Command& node = job.start_command(0, joined({{kDdprun}, options, {"sleep", "60"}}));
  node.wait_for_output("waiting for the coordinator.*" + why, kLimit);
  node.wait_for_output("waiting for the coordinator.*" + why, kLimit, node.mark());
}

TEST_CASE("an address by which other machines know this one is nothing to tell of", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(1, {});
  const std::string address = GENERATE(std::string("host0"), Hosts::address(0));
  const Ended ended =
      job.start_command(0, job_of({"--nnodes=1", "--master-addr=" + address, "sleep", "3"})).wait_exit(kLimit);
  CHECK(ended.code == 0);
  CHECK(ended.err == "");
}

TEST_CASE("where the interface lo is down ddprun and whoever needs the store say so", "[hosts]") {
  if (!hosts_or_skip()) return;
  const Ended ended = run(without_loopback(job_of({"--max-restarts=0", programs_folder() + "/host_worker"})), kLimit);
  CHECK(ended.code == 1);
  CHECK_THAT(ended.err, Catch::Contains("ddprun: the network interface lo is down. ") &&
                            Catch::Contains("cannot connect: the network interface lo is down. "));
}
