// What is known of a job: from its events (docs/events.md), from how it ended, and from earlier starts.
//
// A value: JSON in, JSON out.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ddprun::launcher {

using MilliSeconds = std::int64_t;  // since 1970

class RecordedStatus {
 public:
  // A new start of the job: `earlier` is what an earlier one left, null if there is none.
  RecordedStatus(const nlohmann::json& earlier, MilliSeconds now);

  void on_event(const nlohmann::json& event);
  // `end` is DDPRUN_END_FILE's content, null if ddprun wrote none.
  void on_end(int exit_code, const nlohmann::json& end, MilliSeconds now);
  // A sentence, of the commands that copy the snapshot: the newest one stays.
  void on_copy(bool stored, const std::string& problem, MilliSeconds now);

  // {"state": "running", ...}: docs/jobs.md has the fields.
  nlohmann::json to_json(MilliSeconds now) const;
  // {"metrics": {"loss": {"last": 0.2, "min": 0.1, "max": 2.3, "count": 40}}}
  nlohmann::json result() const;

 private:
  void on_worker(const std::string& state, const nlohmann::json& event);

  std::string state_ = "waiting";
  MilliSeconds created_, started_;
  std::optional<MilliSeconds> first_worker_, ended_, workers_since_, stored_;
  MilliSeconds trained_ = 0;            // time in which workers ran, also of earlier starts
  MilliSeconds earlier_node_time_ = 0;  // of all nodes in earlier starts
  int starts_ = 1, round_ = 0, restarts_ = 0, requeues_ = 0, nodes_ = 1, workers_here_ = 0;
  std::optional<int> exit_code_;
  std::string reason_, copy_problem_;
  nlohmann::json first_failure_;
  nlohmann::json metrics_ = nlohmann::json::object();
};

// "succeeded", "preempted" (to be started again), "stopped" or "failed", by ddprun's exit code.
std::string end_state(int exit_code);

}  // namespace ddprun::launcher
