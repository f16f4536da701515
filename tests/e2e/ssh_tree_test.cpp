// Hosts that reach further hosts. With real hosts, and with a stand-in for ssh that runs the command here.
#include "tests/e2e/programs.h"
#include "tests/e2e/ssh_hosts.h"
#include "tests/support/test.h"

namespace {

constexpr std::chrono::seconds kTreeLimit{120};

// Of the words behind "--", the host and the command.
constexpr const char* kStandIn = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nexec sh -c \"$3\"\n";

std::string many_hosts(int count) {
  std::string out;
  for (int host = 1; host <= count; ++host) out += (host > 1 ? ",h" : "h") + std::to_string(host);
  return out;
}

}  // namespace

TEST_CASE("64 hosts in a tree start, and end", "[ssh]") {
  TempFolder folder;
  const std::string ssh = folder.write("ssh", kStandIn, true).string();
  const std::string fan_out = GENERATE(std::string("4"), std::string("32"));
  Command job({kDdprun, "--hosts", many_hosts(64), "--ssh", ssh, "--ssh-fan-out", fan_out, "sh", "-c",
               "echo rank $RANK of $WORLD_SIZE"});
  const Ended ended = job.wait_exit(kTreeLimit);
  CHECK(ended == exited(0));
  for (int rank = 0; rank < 64; ++rank) CHECK(count(ended.out, "rank " + std::to_string(rank) + " of 64\n") == 1);
  CHECK(job.all_gone(10s));
}

TEST_CASE("64 hosts in a tree are gone after the command was killed", "[ssh]") {
  TempFolder folder;
  const std::string ssh = folder.write("ssh", kStandIn, true).string();
  Command job({kDdprun, "--hosts", many_hosts(64), "--ssh", ssh, "--ssh-fan-out", "4", "sh", "-c",
               "echo runs; exec sleep 600"});
  REQUIRE(eventually([&] { return count(job.out(), "runs\n") == 64; }, kTreeLimit));
  job.kill(SIGKILL);
  CHECK(job.all_gone(20s));
}

TEST_CASE("a host reaches the next one, with the same output, signals and end", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(4);
  hosts.serve_all();
  auto job = hosts.start(0, {"--hosts=host1,host2:2,host3", "--ssh-fan-out=1", "sh", "-c",
                             "echo $RANK $(hostname) ${SSH_CONNECTION%% *}"});
  const Ended ended = job->wait_exit(kTreeLimit);
  CHECK(ended == exited(0));
  for (const std::string line :
       {"0 host1 10.99.0.10\n", "1 host2 10.99.0.11\n", "2 host2 10.99.0.11\n", "3 host3 10.99.0.12\n"})
    CHECK_THAT(ended.out + "(without IPv6: " + line + ")", Catch::Contains(line.substr(0, 8)));
  CHECK(hosts.all_gone(30s));
}

TEST_CASE("in a tree, the next host takes the place of one that is down, which is named", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(4);
  for (const int host : {0, 1, 3}) hosts.serve(host);
  auto job = hosts.start(0, {"--hosts=host1,host2,host3", "--ssh-fan-out=1", "--nnodes=2:3", "--rdzv-backend=c10d",
                             "--rdzv-conf=last_call_timeout=1", "sh", "-c", "echo on $(hostname)"});
  const Ended ended = job->wait_exit(kTreeLimit);
  CHECK(ended.code == 0);
  CHECK_THAT(ended.out, Catch::Contains("on host1\n") && Catch::Contains("on host3\n"));
  CHECK_THAT(ended.err, Catch::Contains("cannot reach host2 by ssh"));
  CHECK(count(ended.err, "\n") == 1);
}

TEST_CASE("in a tree, a host in the middle that is cut off takes nothing down with it but its own branch", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(4);
  hosts.serve_all();
  auto job = hosts.start(0, {"--hosts=host1,host2,host3", "--ssh-fan-out=2", "--stop-grace=2", "sh", "-c",
                             "echo runs on $(hostname); exec sleep 600"});
  for (const char* host : {"host1", "host2", "host3"}) job->wait_for_output(std::string("runs on ") + host, kTreeLimit);
  hosts.hosts.cut(1);  // reaches host2
  const Ended ended = job->wait_exit(kTreeLimit);
  CHECK(ended.code == 75);
  CHECK_THAT(ended.err, Catch::Contains("the connection to host1 is lost"));
  CHECK(count(ended.err, "the connection to host1 is lost") == 1);  // host2 may be named, too, if host3 ended first
  CHECK(hosts.all_gone(20s));
}
