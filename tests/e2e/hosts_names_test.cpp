// Hosts whose names only a slow or unresponsive name server knows.
#include <csignal>

#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/catch.h"
#include "tests/support/places.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

// A job with the name server on the last host. Its hosts' names are not numeric, and in no /etc/hosts.
class NamedJob : public HostJob {
 public:
  NamedJob(int nodes, const Words& options, const std::string& delay)
      : HostJob(nodes + 1, options),
        resolv_conf_(folder.write("resolv.conf",
                                  "nameserver " + Hosts::address(nodes) + "\noptions timeout:30 attempts:5 ndots:0\n")),
        switch_conf_(folder.write("nsswitch.conf", "hosts: files dns\n")) {
    Command& server =
        start_command(nodes, {"python3", source_folder() + "/tests/e2e/name_server.py", Hosts::address(0), delay});
    server.wait_for_output("serves", 30s);
  }
  Command& start_node(int host, const Words& options) {
    Words words{"sh",
                "-c",
                "unset RES_OPTIONS; mount --bind \"$0\" /etc/resolv.conf && mount --bind \"$1\" /etc/nsswitch.conf && "
                "shift && exec \"$@\"",
                resolv_conf_,
                switch_conf_,
                kDdprun};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(programs_folder() + "/host_worker");
    return start_command(host, words);
  }

 private:
  std::string resolv_conf_, switch_conf_;
};

}  // namespace

TEST_CASE("nodes meet although every look-up of the meeting place takes seconds", "[hosts]") {
  if (!hosts_or_skip()) return;
  const Words options = GENERATE(elastic_over_hosts("2:2", "head.cluster:29400"), static_over_hosts(2, "head.cluster"));
  NamedJob job(2, options, "2.5");
  for (const int host : {0, 1}) {
    Words words = options;
    words.push_back("--node-rank=" + std::to_string(host));
    job.start_node(host, words);
  }
  CHECK(job.wait_for_world(2).hosts.at(0) == "host0");
  job.all_end_well({0, 1});
}

// A look-up would take minutes here.
TEST_CASE("a node that waits for a name server says so, and ends at once when it is asked to", "[hosts]") {
  if (!hosts_or_skip()) return;
  NamedJob job(1, {}, "never");
  Command& node = job.start_node(0, {"--nnodes=2", "--node-rank=1", "--master-addr=head.cluster"});
  node.wait_for_output("head.cluster:29500: its name cannot be looked up: no name server has answered", kLimit);
  node.kill(SIGTERM);
  CHECK(node.wait_exit(kLimit).code == 75);
}

namespace {

// Runs the command in a new network namespace, where lo is down.
Words without_loopback(Words command) {
  command.insert(command.begin(), {"unshare", "--net"});
  return command;
}

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
        "nosuchhost:29400: its name cannot be looked up"},
       {{"--nnodes=1", "--master-addr=10.99.0.77"}, "10.99.0.77 is not an address of this machine"},
       {{"--nnodes=1", "--master-addr=nosuchhost"}, "its name cannot be looked up"}}));
  Words words = options;
  words.insert(words.end(), {"sleep", "60"});
  Command& node = job.start_command(0, job_of(words));
  node.wait_for_output("(waiting for the coordinator|cannot reach the store at).*" + why, kLimit);
  node.wait_for_output("(waiting for the coordinator|cannot reach the store at).*" + why, kLimit, node.mark());
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
