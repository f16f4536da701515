// `ddprun ctl` and `ddprun status` over test hosts.
#include <nlohmann/json.hpp>

#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

using nlohmann::json;

namespace {

constexpr auto kChangeLimit = 10'000ms;

Ended on_host(const HostJob& job, int host, const Words& words) {
  return run(job.hosts.on(host, job_of(words)), kLimit);
}

Ended ctl(const HostJob& job, int host, const Words& words) { return on_host(job, host, joined({{"ctl"}, words})); }

json status(const HostJob& job, int host) {
  const json all = json::parse(on_host(job, host, {"status", "--json"}).out, nullptr, /*allow_exceptions=*/false);
  return all.is_object() ? all.value("live", json()) : json();
}

std::string state_of(const json& live, const std::string& node) {
  if (!live.is_object()) return "";
  for (const json& one : live.value("nodes", json::array()))
    if (one["name"] == node) return one["state"];
  return "";
}

bool all_run(const json& live) {
  return live.is_object() && live.value("state", "") == "running" && live.value("ranks", json::array()).size() == 3;
}

bool all_paused(const json& live, bool paused) {
  const json ranks = live.is_object() ? live.value("ranks", json::array()) : json::array();
  return ranks.size() == 3 && std::all_of(ranks.begin(), ranks.end(),
                                          [&](const json& rank) { return rank.value("paused", !paused) == paused; });
}

}  // namespace

TEST_CASE("a user drains a host, admits it again and resizes the job, from any host", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, joined({elastic_over_hosts("2:2"), {"--spares=1", "--event-log-handler=file:events.jsonl"}}));
  for (const int host : {0, 1}) job.start(host, {"--node-rank=" + std::to_string(host)});
  job.wait_for_world(2);
  job.start(2, {"--node-rank=2"});
  REQUIRE(eventually([&] { return state_of(status(job, 1), "host2") == "spare"; }, kLimit));

  const Training without = change(job, "host1 drained", 2, kChangeLimit, [&] {
    const Ended drained = ctl(job, 2, {"drain", "host1"});
    CHECK(drained == exited(0));
    CHECK_THAT(drained.out, Catch::Contains("the job goes on without host1"));
  });
  CHECK(without.hosts == std::map<int, std::string>{{0, "host0"}, {1, "host2"}});
  for (const int host : {0, 1, 2}) CHECK(state_of(status(job, host), "host1") == "excluded");
  const Ended refused = ctl(job, 0, {"drain", "host2"});
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Catch::Contains("ddprun ctl: not done: too few others are left without host2"));

  CHECK(ctl(job, 1, {"admit", "host1"}) == exited(0));
  const Training all = change(job, "room for a third host", 3, kChangeLimit, [&] {
    CHECK(ctl(job, 0, {"resize", "2:3"}) == exited(0));
  });
  CHECK(all.hosts.size() == 3);
  CHECK(status(job, 1)["nodes_max"] == 3);
  change(job, "restart", 3, kChangeLimit, [&] { CHECK(ctl(job, 1, {"restart"}) == exited(0)); });
  CHECK(eventually([&] { return all_run(status(job, 0)); }, kLimit));
  CHECK(status(job, 0)["restarts"]["charged"] == 0);
  for (const bool paused : {true, false}) {
    CHECK(ctl(job, paused ? 1 : 2, {paused ? "pause" : "resume"}) == exited(0));
    CHECK(eventually([&] { return all_paused(status(job, 0), paused); }, kLimit));
  }

  const std::string events = read_file(job.folder / "events.jsonl");
  for (const char* act : {"drain host1", "drain host2", "admit host1", "resize 2:3", "restart", "pause", "resume"})
    CHECK_THAT(events, Catch::Contains(std::string("\"act\":\"") + act + "\""));
  CHECK_THAT(events, Catch::Contains("\"state\":\"ACT\"") && Catch::Contains(" on host2\""));
  CHECK(ctl(job, 2, {"stop"}) == exited(0));
  for (const int host : {0, 1, 2}) CHECK(job[host].wait_exit(30s) == exited(143));
}

TEST_CASE("the status comes from every host, also while the coordinator changes", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, elastic_over_hosts("2:3"));
  for (const int host : {0, 1, 2}) job.start(host, {"--node-rank=" + std::to_string(host)});
  job.wait_for_world(3);
  for (const int host : {0, 1, 2}) {
    json live;
    const auto runs = [&] { return all_run(live = status(job, host)); };
    REQUIRE(eventually(runs, kLimit));
    CHECK(live["state"] == "running");
    CHECK(live["ranks"].size() == 3);
    CHECK(live["answered_by"] == "host" + std::to_string(host));
  }
  const Ended stacks = ctl(job, 1, {"stacks"});
  CHECK(stacks == exited(0));
  for (const char* rank : {"rank 0 on host0", "rank 1 on host1", "rank 2 on host2"})
    CHECK_THAT(stacks.out, Catch::Contains(rank));
  CHECK(ctl(job, 1, {"resize", "1:3"}) == exited(0));  // no new round follows
  job.kill_node(0);
  bool always = true;
  const auto goes_on = [&] {
    const json live = status(job, 2);
    always &= live.is_object();
    return live.is_object() && live.value("elections", 0) >= 1 && live["ranks"].size() == 2;
  };
  CHECK(eventually(goes_on, kLimit));
  CHECK(always);
  CHECK(status(job, 2)["nodes_min"] == 1);
  job.all_end_well({1, 2});
}
