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

// Runs the command where `$1` lies over the folder `$2`: a host with a disk of its own.
TEST_CASE("a folder is on a host with a disk of its own before the job starts there", "[ssh]") {
  if (!hosts_or_skip()) return;  // mounts need root, too
  if (run({"rsync", "--version"}, kTreeLimit).code != 0) return;
  TempFolder folder;
  const std::string work = folder / "work", disk = folder / "disk";
  fs::create_directories(work + "/code/.git");
  fs::create_directories(disk + "/code");
  const auto write = [](const std::string& file, const std::string& text) { std::ofstream(file) << text; };
  write(work + "/code/run.sh", "cat note; ls -A\n"), write(work + "/code/note", "from here\n");
  write(work + "/code/.gitignore", "*.log\n"), write(work + "/code/old.log", "not wanted\n");
  write(disk + "/code/kept", "theirs\n");
  const std::string ssh = folder.write("ssh",
                                       "#!/bin/sh\nwhile [ \"$1\" != far ]; do shift; done\nshift\ncd /\nexport "
                                       "command=\"$*\"\nexec unshare --mount sh -c "
                                       "'mount --bind " +
                                           disk + " " + work + " && eval \"$command\"'\n",
                                       true);
  const auto run_with = [&](const std::string& what) {
    Command job({kDdprun, "--hosts=far", "--ssh=" + ssh, "--sync=" + what, "sh", "run.sh"}, {.cwd = work + "/code"});
    return job.wait_exit(kTreeLimit);
  };
  const Ended ended = run_with(".");
  CHECK(ended == exited(0));
  CHECK(ended.out == "from here\n.gitignore\nkept\nnote\nrun.sh\n");
  CHECK_THAT(ended.err, Matches("ddprun: " + work + "/code went to 1 host: 3 files, [0-9.]+ \\S+, in [0-9.]+ s\\.\n"));
  write(disk + "/code/note", "newer there\n");  // by another run
  fs::last_write_time(disk + "/code/note", fs::file_time_type::clock::now() + 1h);
  const Ended again = run_with("../code");
  CHECK_THAT(again.out, StartsWith("newer there\n"));
  CHECK_THAT(again.err, Contains("went to 1 host: 0 files"));
  CHECK_THAT(again.err, StartsWith("ddprun: on far a file is newer and stays: note.\n"));
  CHECK_THAT(run_with("none").err, Contains("cannot copy none to the hosts (--sync): there is no such folder"));
}
