// The test hosts themselves (support/hosts.h): a test that cuts a link must be sure that it is cut.
#include "tests/support/test.h"
#include "tests/support/hosts.h"

namespace {

// A kernel without a listener refuses; an unreachable host does not answer.
bool reaches(const Hosts& hosts, int from, const std::string& to) {
  const std::string knock = "exec 3<> /dev/tcp/" + to + "/9";
  const Ended ended = run(hosts.on(from, {"timeout", "0.3", "bash", "-c", knock}), 30s);
  return ended.err.find("Connection refused") != std::string::npos;
}

// One knock may come too late where the machine is busy, or a link is not up yet.
bool soon_reaches(const Hosts& hosts, int from, const std::string& to) {
  return eventually([&] { return reaches(hosts, from, to); }, 10s);
}

}  // namespace

TEST_CASE("test hosts reach each other by names and addresses of both kinds, until they are cut off", "[hosts]") {
  if (!hosts_or_skip()) return;
  const Hosts hosts(4);
  CHECK(run(hosts.on(2, {"hostname"}), 30s).out == "host2\n");
  for (const std::string to : {"host1", "host1-v4", "host1-v6", "10.99.0.11", "fd99::11"}) {
    INFO(to);
    CHECK(soon_reaches(hosts, 0, to));
  }
  hosts.cut(1);
  CHECK_FALSE(reaches(hosts, 0, "host1-v4"));
  CHECK_FALSE(reaches(hosts, 1, "host0-v6"));
  CHECK(soon_reaches(hosts, 0, "host2"));
  hosts.mend({1});
  CHECK(soon_reaches(hosts, 0, "host1-v4"));
  hosts.part({2, 3});
  CHECK(soon_reaches(hosts, 0, "host1-v4"));
  CHECK(soon_reaches(hosts, 2, "host3-v4"));
  CHECK_FALSE(reaches(hosts, 0, "host2-v4"));
  hosts.mend({2, 3});
  CHECK(soon_reaches(hosts, 0, "host2-v4"));
  hosts.apart(0, {1, 2});
  for (const std::string to : {"host1-v4", "host1-v6", "host2-v4"}) CHECK_FALSE(reaches(hosts, 0, to));
  CHECK_FALSE(reaches(hosts, 1, "host0-v4"));
  CHECK(soon_reaches(hosts, 0, "host3-v4"));
  CHECK(soon_reaches(hosts, 1, "host2-v4"));
  hosts.together(0, {1, 2});
  for (const std::string to : {"host1-v4", "host1-v6", "host2-v4"}) CHECK(soon_reaches(hosts, 0, to));
}

TEST_CASE("test hosts are gone with their owner, and those of a dead process with the next ones", "[hosts]") {
  if (!hosts_or_skip()) return;
  const auto exists = [](const std::string& host) { return fs::exists("/run/netns/ddprun-" + host); };
  Command owner({"sleep", "600"});
  const std::string dead = std::to_string(owner.pid()) + "-1";
  const std::string script = source_folder() + "/scripts/hosts.sh";
  REQUIRE(run({script, "up", dead, "1"}, 30s) == exited(0));
  CHECK(exists(dead + "-0"));
  Command left({script, "exec", dead, "0", "sleep", "600"});
  CHECK(eventually([&] { return !left.processes().empty(); }, 30s));
  owner.kill(SIGKILL);
  owner.wait_exit(30s);
  { const Hosts next(1); }
  CHECK_FALSE(exists(dead + "-0"));
  CHECK_FALSE(exists(dead + "-switch"));
  CHECK(left.wait_exit(30s) == killed_by(SIGKILL));
  for (const auto& entry : fs::directory_iterator("/run/netns"))
    CHECK_THAT(entry.path().filename(), !Catch::StartsWith("ddprun-" + std::to_string(getpid()) + "-"));
}
