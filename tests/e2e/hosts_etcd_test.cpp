// Jobs over test hosts that find their coordinator through an etcd of three members, on hosts of their own.
#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMembers = 3;
// A silent node is lost after its lease and a second; a silent coordinator, when its key may not count any more.
constexpr auto kNodeSilent = 6s, kCoordinatorSilent = 12s, kBusy = 6s;
constexpr auto kStandsStill = 20s;  // EtcdTiming::stand_still
constexpr auto kEtcdMendLimit = 10'000ms;

std::vector<int> hosts_of_etcd(int nodes) { return {nodes, nodes + 1, nodes + 2}; }

std::vector<std::string> over_etcd(int nodes) {
  std::string endpoint;
  for (const int host : hosts_of_etcd(nodes))
    endpoint += (endpoint.empty() ? "" : ",") + Hosts::address(host) + ":2379";
  return {"--nnodes=1:" + std::to_string(nodes), "--rdzv-backend=etcd", "--rdzv-endpoint=" + endpoint, "--rdzv-id=job",
          "--rdzv-conf=last_call_timeout=1"};
}

// A node on each of the first hosts, the first one with the coordinator, and a member of etcd on each of the others.
struct EtcdHostJob : HostJob {
  explicit EtcdHostJob(int nodes)
      : HostJob(nodes + kMembers, over_etcd(nodes)), etcd_hosts(hosts_of_etcd(nodes)), etcd(hosts, etcd_hosts) {
    start(0);
    REQUIRE(eventually([this] { return !holder().empty(); }, kLimit));
    for (int host = 1; host < nodes; ++host) start(host);
    wait_for_world(nodes);
  }
  std::string holder() { return etcd.ctl({"get", "/ddprun/job/coordinator", "--print-value-only"}); }
  void cut_off_etcd(int host) const { hosts.apart(host, etcd_hosts); }

  std::vector<int> etcd_hosts;
  EtcdCluster etcd;
};

// The other one of two trains on in time, and not before that host has ended its workers.
void check_silence(EtcdHostJob& job, int silent, Instant cut, std::chrono::milliseconds limit) {
  const std::string what = silent == 0 ? "the coordinator's host silent" : "another host silent";
  INFO(what);
  const Training training = job.wait_for_new_world(1, cut);
  CHECK(training.hosts.at(0) == Hosts::name(1 - silent));
  CHECK(job.last_beat(Hosts::name(silent), training.round - 1) < job.first_beat(training.round));
  CHECK(training.since - cut <= limit + kBusy);
  tell_figure(what + ", to its last beat",
              milliseconds_between(cut, job.last_beat(Hosts::name(silent), training.round)));
  tell_figure(what + ", to the other's training", milliseconds_between(cut, training.since));
}

// From a node's death to the first beat of the next round.
class NewRoundTimes {
 public:
  void add(double milliseconds) {
    seconds_.push_back(milliseconds / 1000);
    getloadavg(&load_, 1);
  }
  std::string in_words() {
    if (seconds_.empty()) return {};
    std::sort(seconds_.begin(), seconds_.end());
    char text[100];
    std::snprintf(text, sizeof text, "; a new round after %.3f s (median), %.3f s (worst), at load %.1f",
                  seconds_[seconds_.size() / 2], seconds_.back(), load_);
    return text;
  }

 private:
  std::vector<double> seconds_;
  double load_ = 0;
};

double lose_node(HostJob& job, int nodes, int lost) {
  const Instant killed = Clock::now();
  job.kill_node(lost);
  const Training training = job.wait_for_new_world(nodes - 1, killed);
  const double milliseconds = milliseconds_between(killed, job.first_beat(training.round));
  std::vector<int> left;
  for (int host = 0; host < nodes; ++host)
    if (host != lost) left.push_back(host);
  job.all_end_well(left);
  return milliseconds;
}

constexpr int kLosses = 20;

void soak_losses(const std::string& what, const std::function<double(int lost)>& once) {
  for (const int lost : {0, 1}) {
    NewRoundTimes times;
    const std::string who = lost == 0 ? "the coordinator's node" : "another node";
    Series(what + " lose " + who + " by SIGKILL: the others train on", 0, kLosses)
        .run([&](std::uint64_t) { times.add(once(lost)); }, [&] { return times.in_words(); });
  }
}

std::unique_ptr<HostJob> own_election_job(int nodes) {
  auto job = std::make_unique<HostJob>(
      nodes, joined({elastic_over_hosts("1:" + std::to_string(nodes)), {"--rdzv-conf=last_call_timeout=1"}}));
  job->start(0);
  job->wait_for_world(1);
  for (int host = 1; host < nodes; ++host) job->start(host);
  job->wait_for_world(nodes);
  return job;
}

}  // namespace

TEST_CASE("either host of two falls silent: it has ended its workers when the other one trains on", "[hosts][etcd]") {
  if (!has_etcd() || !hosts_or_skip()) return;
  EtcdHostJob first(2), second(2);
  const Instant cut = Clock::now();
  first.hosts.cut(0);
  second.hosts.cut(1);
  check_silence(second, 1, cut, kNodeSilent);
  check_silence(first, 0, cut, kCoordinatorSilent);
  change(second, "the link mended", 2, kEtcdMendLimit, [&] { second.hosts.mend({1}); });
  change(first, "the link mended", 2, kEtcdMendLimit, [&] { first.hosts.mend({0}); });
  first.all_end_well({0, 1});
  second.all_end_well({0, 1});
}

TEST_CASE("nodes that reach each other train on while etcd is out of reach of some, longer than the key's lease",
          "[hosts][etcd]") {
  if (!has_etcd() || !hosts_or_skip()) return;
  EtcdHostJob job(3);
  const std::string holder = job.holder();
  const int round = job.wait_for_world(3).round;
  for (const int host : {0, 1}) job.cut_off_etcd(host);
  REQUIRE(eventually([&] { return job.holder().empty(); }, kLimit));
  const Instant expired = Clock::now();
  CHECK(job.wait_for_world(3, expired + 3s).round == round);  // host 2 sees that there is no key
  job.hosts.together(0, job.etcd_hosts);
  CHECK(eventually([&] { return job.holder() == holder; }, kLimit));
  CHECK(job.wait_for_world(3, Clock::now() + 500ms).round == round);
  // A node that does not reach etcd finds the next coordinator through others.
  const Training two = change(job, "the coordinator's node killed", 2, kEtcdMendLimit, [&] { job.kill_node(0); });
  std::set<std::string> left;  // in any order: on a busy machine the one without etcd may come later than the round
  for (const auto& [rank, host] : two.hosts) left.insert(host);
  CHECK(left == std::set<std::string>{"host1", "host2"});
  job.all_end_well({1, 2});
}

TEST_CASE("the host of etcd's leader falls silent, and nodes are lost: the others train on", "[hosts][etcd]") {
  if (!has_etcd() || !hosts_or_skip()) return;
  EtcdHostJob job(3);
  const int leader = job.etcd.leader();
  REQUIRE(leader >= 0);
  job.hosts.cut(job.etcd_hosts.at(leader));
  change(job, "etcd's leader silent, a node killed", 2, kEtcdMendLimit, [&] { job.kill_node(1); });
  change(job, "the coordinator's node killed", 1, kEtcdMendLimit, [&] { job.kill_node(0); });
  job.all_end_well({2});
}

TEST_CASE("who reaches etcd and not the coordinator is left out, and a coordinator without etcd makes way",
          "[hosts][etcd]") {
  if (!soaking() || !has_etcd() || !hosts_or_skip()) return;
  EtcdHostJob two(2), three(3);
  const std::string holder = two.holder();
  three.cut_off_etcd(0);
  const Instant apart = Clock::now();
  two.hosts.apart(0, {1});
  check_silence(two, 1, apart, kNodeSilent);
  REQUIRE(eventually([&] { return three.holder().empty(); }, kLimit));
  // It is in charge, but no round can begin.
  const Training left = change(three, "a node killed while the coordinator does not reach etcd", 2,
                               kStandsStill + kBusy, [&] { three.kill_node(1); });
  CHECK(left.hosts.size() == 2);
  CHECK_THAT(three.holder(), Catch::Contains("host2"));
  CHECK(two.wait_for_world(1, Clock::now()).hosts.at(0) == "host0");
  CHECK(two.holder() == holder);
  change(two, "the link mended", 2, kEtcdMendLimit, [&] { two.hosts.together(0, {1}); });
  two.all_end_well({0, 1});
  three.all_end_well({0, 2});
}

TEST_CASE("jobs lose a node, many times", "[hosts][etcd][losses]") {
  if (!soaking() || !has_etcd() || !hosts_or_skip()) return;
  for (const int nodes : {2, 3})
    soak_losses(std::to_string(nodes) + " nodes on an etcd of three members", [&](int lost) {
      EtcdHostJob job(nodes);
      return lose_node(job, nodes, lost);
    });
  soak_losses("3 nodes with their own election", [&](int lost) { return lose_node(*own_election_job(3), 3, lost); });
  Series("2 nodes with their own election lose another node by SIGKILL: the coordinator's node trains on", 0, kLosses)
      .run([](std::uint64_t) { lose_node(*own_election_job(2), 2, 1); });
  Series("2 nodes with their own election lose the coordinator's node by SIGKILL: the job ends", 0, kLosses)
      .run([](std::uint64_t) {
        const auto job = own_election_job(2);
        job->kill_node(0);
        REQUIRE((*job)[1].wait_exit(60s).code != 0);
      });
}
