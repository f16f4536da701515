#include "tests/support/top_moments.h"

#include <cmath>
#include <cstdint>
#include <string>

namespace ddprun::test {
namespace {

using nlohmann::json;

constexpr std::int64_t kNow = 1'790'000'000'000, kStep = 358;  // ms since 1970
constexpr int kSamples = 120;

json moment_rank(int number, int node, int ranks) {
  json out = json::parse(R"({"activity": "compute", "collective": "", "step": 358, "age_seconds": 0.25,
                             "load_seconds": 3.0, "compute_seconds": 13.5, "wait_seconds": 3.5, "processors": 1.04,
                             "stopped": false, "paused": false, "held": "", "silent": false, "trouble": ""})");
  out["rank"] = number;
  out["node"] = "n" + std::to_string(node);
  out["group_rank"] = node;
  out["memory_bytes"] = (2100LL + number) << 20;
  out["loss"] = 0.21 + 0.001 * (number % 7);
  if (number % 3 == 1) out["wait_seconds"] = 5.0 + 3.0 * number / ranks;
  return out;
}

// A loss that falls, and a pace that varies a little.
json moment_samples() {
  json out = json::array();
  for (int i = 0; i < kSamples; ++i)
    out.push_back({kNow - 2000 * (kSamples - i), i * 3, i < 3 ? json() : json(16.0 + 1.5 * std::sin(i * 0.4)),
                   2.3 * std::exp(-0.02 * i) + 0.02 * std::sin(i), 0.93});
  return out;
}

json moment_job(int nodes, int ranks_each) {
  json out = json::parse(R"({"run_id": "mnist", "state": "running", "state_seconds": 725.0, "problem": "", "round": 1,
    "condition": {"kind": "running", "level": "good", "seconds": null, "why": "", "text": "running"},
    "activity": "train", "step": 358, "total_steps": 12800, "steps_per_second": 16.1, "snapshot_step": 350,
    "progress": {"done_share": 0.028, "percent": 2, "seconds_left": 780, "text": "2.8 %, 13 min left"},
    "loss": 0.213, "snapshot_age_seconds": 5.2, "ranks": [], "nodes": [], "slow_ranks": [], "silent_nodes": [],
    "restarts": {"charged": 0, "limit": 3, "by_cause": {}}, "time": {"total": 100.0, "useful_share": 0.931},
    "last_failure": null, "last_output": null, "waits_for": {"ranks": [], "nodes": [], "text": ""}})");
  for (int node = 0; node < nodes; ++node) {
    out["nodes"].push_back(
        {{"name", "n" + std::to_string(node)}, {"state", "active"}, {"reason", ""}, {"group_rank", node}});
    for (int i = 0; i < ranks_each; ++i)
      out["ranks"].push_back(moment_rank(node * ranks_each + i, node, nodes * ranks_each));
  }
  out["history"] = {
      {"samples", moment_samples()}, {"rounds", json::array()}, {"marks", {{kNow - 120'000, "snapshot", "step 350"}}}};
  return out;
}

}  // namespace

json running_moment() { return moment_job(2, 2); }

json still_moment() {
  json out = moment_job(2, 2);
  out["condition"] = {{"kind", "stands still"},
                      {"level", "attention"},
                      {"seconds", 4.7},
                      {"why", "ranks 0, 1 and 3 wait for rank 2 (stopped)"},
                      {"text", "stands still for 4.7 s: ranks 0, 1 and 3 wait for rank 2 (stopped)"}};
  out["round"] = 2;
  out["restarts"] = {{"charged", 1}, {"limit", 3}, {"by_cause", {{"crash", 1}}}};
  out["steps_per_second"] = 0;
  out["progress"]["text"] = "2.8 %";
  out["waits_for"] = {{"ranks", {2}},
                      {"nodes", json::array()},
                      {"text", "rank 2 on n1 has computed for 4.7 s, after step 358; 3 ranks wait"}};
  out["last_failure"] = {
      {"round", 1}, {"rank", 1}, {"node", "n0"}, {"text", "rank 1 on n0 was killed by SIGKILL"}, {"age_seconds", 95.0}};
  for (json& rank : out["ranks"]) {
    rank["age_seconds"] = 4.7;
    if (rank["rank"] != 2) rank.update({{"activity", "wait"}, {"collective", "all_reduce"}});
  }
  out["ranks"][2].update({{"stopped", true}, {"trouble", "stopped"}, {"step", kStep - 1}, {"processors", 0.0}});
  for (int i = 0; i < 3; ++i) out["history"]["samples"].push_back({kNow + 2000 * i, kStep, 0, 0.213, 0.93});
  out["history"]["marks"] = {{kNow - 200'000, "snapshot", "step 100"},
                             {kNow - 95'000, "failure", "rank 1 on n0 was killed by SIGKILL"},
                             {kNow - 90'000, "restart", "round 2"},
                             {kNow - 60'000, "straggler", "rank 3 computes 2.4x slower than the median"},
                             {kNow - 5'000, "snapshot", "step 350"},
                             {kNow - 4'700, "still", "ranks 0, 1 and 3 wait for rank 2 (stopped)"}};
  return out;
}

json many_moment() {
  json out = moment_job(32, 8);
  out["condition"] = {{"kind", "slowed"},
                      {"level", "attention"},
                      {"seconds", nullptr},
                      {"why", "rank 77 computes 2.4x slower than the median"},
                      {"text", "slowed: rank 77 computes 2.4x slower than the median"}};
  out["ranks"][77].update({{"trouble", "slow 2.4x"}, {"compute_seconds", 32.0}, {"wait_seconds", 0.1}});
  out["ranks"][130].update({{"trouble", "held by the kernel"}, {"held", "io_schedule"}, {"step", kStep - 2}});
  out["ranks"][131].update({{"trouble", "holds up"}, {"step", kStep - 1}});
  return out;
}

}  // namespace ddprun::test
