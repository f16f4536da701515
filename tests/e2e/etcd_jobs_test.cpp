// Jobs of several nodes that find their coordinator through a real etcd, on one machine over loopback.
#include "tests/e2e/programs.h"
#include "tests/support/command.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/test.h"

namespace {

// Prints where it is; exits once the file exists.
const std::string kUp =
    "trap 'echo told; exit 0' TERM; echo \"up $DDPRUN_ROUND/$RANK/$WORLD_SIZE/$TORCHELASTIC_RESTART_COUNT\"; "
    "while [ ! -e go ]; do sleep 0.02; done";

std::string places_of(const EtcdCluster& etcd) {
  std::string out;
  for (const std::string& member : etcd.members()) out += (out.empty() ? "" : ",") + member;
  return out;
}

struct EtcdNodes {
  explicit EtcdNodes(EtcdCluster& cluster, const std::string& nodes = "1:2", std::vector<std::string> more = {})
      : etcd(cluster),
        options(joined({{"--nnodes=" + nodes, "--rdzv-backend=etcd", "--rdzv-endpoint=" + places_of(cluster),
                         "--rdzv-id=job", "--rdzv-conf=last_call_timeout=1"},
                        std::move(more)})) {}

  Command& add(const std::vector<std::string>& own = {}, const std::string& script = kUp) {
    agents.push_back(
        std::make_unique<Command>(shell_job(joined({options, own}), script), CommandOptions{.cwd = folder.path()}));
    return *agents.back();
  }
  // The first one that is named has the coordinator.
  void start(int count) {
    add();
    REQUIRE(eventually([this] { return !holder().empty(); }, kLimit));
    for (int i = 1; i < count; ++i) add();
    for (auto& agent : agents) agent->wait_for_output("up 1/\\d/" + std::to_string(count) + "/0", kLimit);
  }
  std::string holder() { return etcd.ctl({"get", "/ddprun/job/coordinator", "--print-value-only"}); }
  // Like a power cut.
  void kill(std::size_t node) {
    Command& command = *agents[node];
    for (const Process& process : command.processes()) ::kill(process.pid, SIGKILL);
    command.wait_exit(kLimit);
  }
  void end_well(const std::vector<std::size_t>& which) {
    folder.write("go", "");
    for (const std::size_t node : which) CHECK(agents[node]->wait_exit(kLimit).code == 0);
  }
  Command& operator[](std::size_t node) { return *agents.at(node); }

  EtcdCluster& etcd;
  std::vector<std::string> options;
  TempFolder folder;
  std::vector<std::unique_ptr<Command>> agents;
};

}  // namespace

TEST_CASE("a job of two nodes goes on without either of them, and its keys go with its end", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  const std::size_t lost = GENERATE(0u, 1u);
  EtcdNodes job(etcd);
  job.start(2);
  job.kill(lost);
  Command& left = job[1 - lost];
  left.wait_for_output("up 2/0/1/0", kLimit);
  CHECK_THAT(left.err(), Catch::Contains("was lost"));
  job.add().wait_for_output("up 3/1/2/0", kLimit);
  job.end_well({1 - lost, 2});
  CHECK(job.holder() == "");
  const std::string record = etcd.ctl({"get", "/ddprun/job/record", "-w", "json"});
  const std::size_t lease = record.find("\"lease\":");
  REQUIRE(lease != std::string::npos);
  char hex[32];
  std::snprintf(hex, sizeof hex, "%llx", std::stoll(record.substr(lease + 8)));
  CHECK_THAT(etcd.ctl({"lease", "timetolive", hex}), Catch::Contains("granted with TTL(60s)"));
}

TEST_CASE("the coordinator's node and etcd's leader are lost at once: the others go on", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd(3);
  EtcdNodes job(etcd, "2:4");
  job.start(4);
  const int leader = etcd.leader();
  REQUIRE(leader >= 0);
  etcd.kill(leader);
  job.kill(0);
  // A round may form before the third one has found the new coordinator, and while etcd has no leader none is stored.
  for (const std::size_t node : {1u, 2u, 3u}) job[node].wait_for_output("up [2-9]/\\d/3/0", kLimit);
  job.end_well({1, 2, 3});
}

TEST_CASE("after all nodes have died, the job's restarts and rounds are counted on", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  EtcdNodes job(etcd, "2", {"--exclude-after=off"});
  const std::string fails_once = "[ $DDPRUN_ROUND$RANK = 11 ] && exit 7; " + kUp;
  job.add({}, fails_once);
  job.add({}, fails_once);
  for (auto& agent : job.agents) agent->wait_for_output("up 2/\\d/2/1", kLimit);
  job.kill(0);
  job.kill(1);
  job.add();
  job.add();
  for (const std::size_t node : {2u, 3u}) job[node].wait_for_output("up [34]/\\d/2/1", kLimit);
  job.end_well({2, 3});
}

TEST_CASE("a coordinator that leaves hands over, and a preempted job's record is kept for its next start", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  EtcdNodes job(etcd);
  job.start(2);
  job[0].kill(SIGTERM);
  CHECK(job[0].wait_exit(kLimit).code == 143);
  job[1].wait_for_output("up \\d/0/1/0", kLimit);
  job[1].kill(SIGTERM);
  CHECK(job[1].wait_exit(kLimit).code == 143);
  CHECK(job.holder() == "");
  CHECK_THAT(etcd.ctl({"get", "/ddprun/job/record"}), Catch::Contains("\"preemptions\":1"));
  job.add().wait_for_output("up [3-9]/0/1/0", kLimit);
  job.end_well({2});
}

TEST_CASE("while etcd does not answer the round goes on, and the next one waits, which is told once", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd(3);
  EtcdNodes job(etcd, "2");
  const std::string fails =
      "echo \"up $DDPRUN_ROUND\"; while [ ! -e go$RANK ]; do sleep 0.02; done; "
      "[ $DDPRUN_ROUND$RANK = 11 ] && exit 7; exit 0";
  job.add({}, fails);
  job.add({}, fails);
  for (auto& agent : job.agents) agent->wait_for_output("up 1", kLimit);
  for (const int member : {0, 1, 2}) etcd.kill(member, SIGSTOP);
  const std::string told = "etcd does not take the job's record";
  const auto both = [&] { return job[0].err() + job[1].err(); };
  REQUIRE(eventually([&] { return both().find(told) != std::string::npos; }, kLimit));
  job.folder.write("go1", "");
  for (auto& agent : job.agents) agent->wait_for_output("restart 1 of 3", kLimit);
  CHECK_FALSE(eventually([&] { return job[0].out().find("up 2") != std::string::npos; }, 1s));
  for (const int member : {0, 1, 2}) etcd.kill(member, SIGCONT);
  for (auto& agent : job.agents) agent->wait_for_output("up 2", kLimit);
  REQUIRE(eventually([&] { return both().find("etcd answers again") != std::string::npos; }, kLimit));
  job.folder.write("go0", "");
  for (auto& agent : job.agents) CHECK(agent->wait_exit(kLimit).code == 0);
  const std::string all = both();
  CHECK(all.find(told) == all.rfind(told));
}

TEST_CASE("where etcd is full the round goes on, and the next one waits for space, which is told once", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd(1, {"--quota-backend-bytes", "1000000"});
  EtcdNodes job(etcd, "2");
  const std::string fails = "while [ ! -e go ]; do sleep 0.02; done; [ $DDPRUN_ROUND$RANK = 11 ] && exit 7; echo done";
  job.add({}, "echo \"up $DDPRUN_ROUND\"; " + fails);
  job.add({}, "echo \"up $DDPRUN_ROUND\"; " + fails);
  for (auto& agent : job.agents) agent->wait_for_output("up 1", kLimit);
  const auto is_full = [&] {
    try {
      etcd.ctl({"put", "/other", std::string(100'000, 'x')});
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  };
  REQUIRE(eventually(is_full, kLimit));
  job.folder.write("go", "");
  const std::string told = "etcd does not take the job's record (" + etcd.members()[0] + ": etcdserver: mvcc: database";
  const auto both = [&] { return job[0].err() + job[1].err(); };
  REQUIRE(eventually([&] { return both().find(told) != std::string::npos; }, kLimit));
  CHECK(job[0].out().find("up 2") == std::string::npos);
  etcd.ctl({"del", "/other"});
  const std::string now = etcd.ctl({"get", "/other", "-w", "json"});
  const std::size_t revision = now.find("\"revision\":") + 11;
  etcd.ctl({"compact", now.substr(revision, now.find_first_not_of("0123456789", revision) - revision)});
  etcd.ctl({"defrag"});
  etcd.ctl({"alarm", "disarm"});
  for (auto& agent : job.agents) CHECK(agent->wait_exit(kLimit).code == 0);
  CHECK(both().find(told) == both().rfind(told));
  CHECK_THAT(both(), Catch::Contains("etcd answers again"));
}

TEST_CASE("a lease that is lost while its coordinator lives ends nobody", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  EtcdNodes job(etcd);
  job.start(2);
  const std::string before = job.holder();
  etcd.ctl({"del", "/ddprun/job/coordinator"});
  REQUIRE(eventually([&] { return job.holder() == before; }, kLimit));
  job.kill(1);
  job[0].wait_for_output("up 2/0/1/0", kLimit);
  job.end_well({0});
}

TEST_CASE("a coordinator that stands still is replaced, and does not write afterwards", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  EtcdNodes job(etcd);
  job.start(2);
  std::vector<pid_t> stopped;
  for (const Process& process : job[0].processes()) stopped.push_back(process.pid), ::kill(process.pid, SIGSTOP);
  job[1].wait_for_output("up 2/0/1/0", kLimit);
  for (const pid_t pid : stopped) ::kill(pid, SIGCONT);
  for (const std::size_t node : {0u, 1u}) job[node].wait_for_output("up [3-9]/\\d/2/0", kLimit);
  job.end_well({0, 1});
}

TEST_CASE("what cannot mend by itself ends the start with one sentence", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  etcd.add_user("team", "/team/");
  EtcdNodes job(etcd);
  job.folder.write("wrong", "wrong\n");
  job.folder.write("right", "secret\n");
  for (const char* name : {"wrong", "right"})
    std::filesystem::permissions(job.folder.path() / name, std::filesystem::perms::owner_read);
  const auto as = [](const std::string& more) {
    return std::vector<std::string>{"--rdzv-conf=last_call_timeout=1,user=team" + more};
  };
  Command& wrong = job.add(as(",prefix=/team/ddprun,password_file=wrong"));
  CHECK(wrong.wait_exit(kLimit).code == 69);
  CHECK_THAT(wrong.err(), Catch::Contains("etcd: " + etcd.members().front()));
  Command& elsewhere = job.add(as(",password_file=right"));
  CHECK(elsewhere.wait_exit(kLimit).code == 69);
  CHECK_THAT(elsewhere.err(), Catch::Contains("permission denied") && Catch::Contains(" readwrite /ddprun/job/)"));
  Command& fine = job.add(as(",prefix=/team/ddprun,password_file=right"));
  fine.wait_for_output("up 1/0/1/0", kLimit);
  job.end_well({2});
}

TEST_CASE("a node with another token has no part in the job, also once nobody coordinates it", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  EtcdNodes job(etcd);
  for (const char* name : {"ours", "another"}) token_file(job.folder, name);
  job.add({"--token-file=ours"}).wait_for_output("up 1/0/1/0", kLimit);
  const std::string words = "has another token: pass the one that its nodes have (--token-file)";
  Command& while_it_runs = job.add({"--token-file=another"});
  CHECK(while_it_runs.wait_exit(kLimit).code == 69);
  CHECK_THAT(while_it_runs.err(), Catch::Contains(words));
  job.kill(0);
  Command& afterwards = job.add();
  CHECK(afterwards.wait_exit(kLimit).code == 69);
  CHECK_THAT(afterwards.err(), Catch::Contains(words));
  job.add({"--token-file=ours"}).wait_for_output("up [23]/0/1/0", kLimit);
  job.end_well({3});
}
