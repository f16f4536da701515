#include "launcher/jobs/recorded_status.h"

#include <charconv>

namespace ddprun::launcher {
namespace {

using nlohmann::json;

constexpr int kPreempted = 75, kTerminated = 143, kSignalled = 128;
constexpr double kMillisecondsInSecond = 1000.0;

std::string text_in(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? found->get<std::string>() : "";
}

template <class Number>
Number number_in(const json& from, const char* key, Number otherwise) {
  const auto found = from.is_object() ? from.find(key) : from.end();
  return found != from.end() && found->is_number() ? found->get<Number>() : otherwise;
}

// An event has its numbers as text; JSON has no nan.
json number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? json(value) : json();
}

json whole_number(const std::string& text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

json optional_time(const std::optional<MilliSeconds>& time) { return time ? json(*time) : json(); }

}  // namespace

std::string end_state(int exit_code) {
  if (exit_code == 0) return "succeeded";
  if (exit_code == kPreempted || exit_code == kTerminated) return "preempted";
  return exit_code > kSignalled ? "stopped" : "failed";
}

RecordedStatus::RecordedStatus(const json& earlier, MilliSeconds now) : created_(now), started_(now) {
  if (!earlier.is_object()) return;
  created_ = number_in(earlier, "created", now);
  starts_ = number_in(earlier, "starts", 0) + 1;
  trained_ = number_in(earlier, "training_ms", MilliSeconds{0});
  earlier_node_time_ = number_in(earlier, "node_ms", MilliSeconds{0});
  if (const auto first = number_in(earlier, "first_worker", MilliSeconds{0}); first > 0) first_worker_ = first;
  if (const auto stored = number_in(earlier, "snapshot_stored", MilliSeconds{0}); stored > 0) stored_ = stored;
  if (earlier.contains("metrics") && earlier["metrics"].is_object()) metrics_ = earlier["metrics"];
}

void RecordedStatus::on_event(const json& event) {
  const auto metadata = event.find("metadata");
  if (!event.is_object() || metadata == event.end() || !metadata->is_object()) return;
  const std::string state = text_in(*metadata, "state");
  round_ = number_in(*metadata, "round", round_);
  restarts_ = number_in(*metadata, "agent_restarts", restarts_);
  requeues_ = number_in(*metadata, "requeues", requeues_);
  nodes_ = number_in(*metadata, "group_world_size", nodes_);
  if (text_in(event, "source") == "WORKER") return on_worker(state, event);
  if (state == "ROUND_ENDED") reason_ = text_in(*metadata, "reason");
  if (state != "METRIC") return;
  metrics_[text_in(*metadata, "metric")] = {{"last", number(text_in(*metadata, "value"))},
                                            {"min", number(text_in(*metadata, "min"))},
                                            {"max", number(text_in(*metadata, "max"))},
                                            {"count", whole_number(text_in(*metadata, "count"))}};
}

void RecordedStatus::on_worker(const std::string& state, const json& event) {
  const auto when = number_in(event, "timestamp", MilliSeconds{0});
  if (state == "START") {
    state_ = "running";
    if (!first_worker_) first_worker_ = when;
    if (workers_here_++ == 0) workers_since_ = when;
  } else if (workers_here_ > 0 && --workers_here_ == 0 && workers_since_) {
    trained_ += when - *workers_since_;
    workers_since_.reset();
  }
}

void RecordedStatus::on_end(int exit_code, const json& end, MilliSeconds now) {
  exit_code_ = exit_code;
  ended_ = now;
  state_ = end_state(exit_code);
  if (workers_since_) trained_ += now - *workers_since_;
  workers_since_.reset();
  reason_ = end.is_object() ? text_in(end, "message") : "";
  first_failure_ = end.is_object() ? end.value("first_failure", json()) : json();
  if (!end.is_object() && exit_code != 0) reason_ = "ddprun itself was killed.";
}

void RecordedStatus::on_copy(bool stored, const std::string& problem, MilliSeconds now) {
  if (stored) stored_ = now;
  copy_problem_ = problem;
}

json RecordedStatus::to_json(MilliSeconds now) const {
  const MilliSeconds until = ended_.value_or(now);
  const MilliSeconds trained = trained_ + (workers_since_ ? now - *workers_since_ : 0);
  return {{"state", state_},
          {"created", created_},
          {"started", started_},
          {"first_worker", optional_time(first_worker_)},
          {"ended", optional_time(ended_)},
          {"seconds", static_cast<double>(until - started_) / kMillisecondsInSecond},
          {"training_ms", trained},
          {"training_seconds", static_cast<double>(trained) / kMillisecondsInSecond},
          {"node_ms", earlier_node_time_ + (until - started_) * nodes_},
          {"billable_seconds",
           static_cast<double>(earlier_node_time_ + (until - started_) * nodes_) / kMillisecondsInSecond},
          {"starts", starts_},
          {"requeues", requeues_},
          {"nodes", nodes_},
          {"round", round_},
          {"restarts", restarts_},
          {"exit_code", exit_code_ ? json(*exit_code_) : json()},
          {"reason", reason_},
          {"first_failure", first_failure_},
          {"snapshot_stored", optional_time(stored_)},
          {"snapshot_problem", copy_problem_},
          {"metrics", metrics_}};
}

json RecordedStatus::result() const { return {{"metrics", metrics_}}; }

}  // namespace ddprun::launcher
