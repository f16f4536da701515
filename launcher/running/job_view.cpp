#include "launcher/running/job_view.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <utility>

#include "launcher/jobs/places/kubernetes_words.h"
#include "launcher/jobs/places/slurm_state.h"
#include "launcher/view/key_lines.h"
#include "launcher/view/status_text.h"
#include "launcher/view/table.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;

constexpr int kStatusKeyWidth = 12, kDescribeKeyWidth = 18;
constexpr std::int64_t kMilli = 1000;

std::string text_at(const json& from, const char* key) {
  const auto found = from.is_object() ? from.find(key) : from.end();
  if (!from.is_object() || found == from.end() || found->is_null()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

std::int64_t number_at(const json& from, const char* key) {
  return from.is_object() && from.contains(key) && from[key].is_number() ? from[key].get<std::int64_t>() : 0;
}

std::string words_at(const json& from, const char* key, std::string (*shown)(const std::string& word)) {
  std::string out;
  const json words = from.is_object() ? from.value(key, json::array()) : json::array();
  for (const json& word : words) out += (out.empty() ? "" : " ") + shown(word.get<std::string>());
  return out;
}

std::string time_text(std::int64_t ms) {
  if (ms == 0) return {};
  const auto seconds = static_cast<std::time_t>(ms / kMilli);
  std::tm local{};
  std::array<char, 32> text{};
  localtime_r(&seconds, &local);
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local)};
}

std::string seconds_text(const json& from, const char* key) {
  if (!from.is_object() || !from.contains(key) || !from[key].is_number()) return {};
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", from[key].get<double>());
  return text.data();
}

std::string metrics_text(const json& status) {
  std::string out;
  const json metrics = status.is_object() ? status.value("metrics", json::object()) : json::object();
  for (const auto& [name, values] : metrics.items())
    out += (out.empty() ? "" : ", ") + name + " " + text_at(values, "last");
  return out;
}

std::string where_text(const JobFacts& facts) {
  std::string out = name_of(facts.place);
  const std::string nodes = facts.scheduler ? facts.scheduler->where : text_at(facts.status, "host");
  if (const std::string id = text_at(facts.submitted, "place_id"); !id.empty()) out += ", job " + id;
  return nodes.empty() ? out : out + ", " + nodes;
}

std::string reason_of(const JobFacts& facts) {
  if (!facts.problem.empty()) return facts.problem;
  if (state_of(facts) == "unclear") return unclear_of(facts);
  if (facts.runner_is_gone && !is_ended(text_at(facts.status, "state"))) return "its ddprun run was killed.";
  const std::string own = text_at(facts.status, "reason");
  const bool says = !own.empty() && is_ended(text_at(facts.status, "state"));
  return says || !facts.scheduler ? own : facts.scheduler->detail;
}

std::int64_t started_at(const JobFacts& facts) {
  const std::int64_t when = number_at(facts.status, "started");
  return when > 0 ? when : number_at(facts.submitted, "at");
}

// In `ddprun list`, from its top. One of which nothing is known any more is with those that have ended.
int place_in_list(const std::string& state) {
  if (is_ended(state) || state == "unknown" || state == "unreadable") return 2;
  return state == "queued" || state == "unclear" ? 1 : 0;
}

int requeues_of(const JobFacts& facts) {
  const int told = static_cast<int>(number_at(facts.status, "requeues"));
  return facts.scheduler ? std::max(told, facts.scheduler->requeues) : told;
}

void add_status(const JobFacts& facts, KeyLines& lines, std::size_t columns = kAnyWidth) {
  const json& status = facts.status;
  const auto code = exit_code_of(facts);
  const bool is_live = facts.live.is_object();
  lines.add("id", facts.id);
  if (is_live)
    add_live(facts.live, lines, columns);
  else
    lines.add("state", state_of(facts));
  if (!facts.has_record) return;
  if (facts.problem.empty()) lines.add("where", where_text(facts));
  lines.add("started", time_text(number_at(status, "started")));
  lines.add("seconds", seconds_text(status, "seconds"));
  if (!is_live) lines.add("round", number_at(status, "round") > 0 ? text_at(status, "round") : "");
  if (!is_live) lines.add("restarts", status.is_object() ? text_at(status, "restarts") : "");
  if (facts.scheduler || requeues_of(facts) > 0) lines.add("requeues", std::to_string(requeues_of(facts)));
  lines.add("metrics", metrics_text(status));
  lines.add("exit code", code ? std::to_string(*code) : "");
  if (facts.scheduler && reason_of(facts) != facts.scheduler->detail) lines.add("scheduler", facts.scheduler->detail);
  lines.add_block("reason", reason_of(facts));
  lines.add("snapshot", text_at(status, "snapshot_problem"));
}

}  // namespace

bool is_ended(const std::string& state) {
  return state == "succeeded" || state == "preempted" || state == "stopped" || state == "failed";
}

bool is_unknown(const std::string& state) { return state == "unknown" || state == "unclear" || state == "unreadable"; }

bool can_ask(const JobFacts& facts) {
  if (facts.place == Place::slurm) return is_slurm_id(text_at(facts.submitted, "place_id"));
  const json job = facts.submitted.is_object() ? facts.submitted.value("kubernetes", json::object()) : json();
  return facts.place == Place::kubernetes && is_kubernetes_name(text_at(job, "name"));
}

std::string unclear_of(const JobFacts& facts) {
  if (const std::string why = text_at(facts.submitted, "unclear"); !why.empty()) return why;
  if (facts.place != Place::slurm || can_ask(facts)) return {};
  return "its record has no number of Slurm's: Slurm may have it or not. squeue --me shows your jobs.";
}

// A preempted job of a scheduler is put back into its queue: the scheduler knows.
std::string state_of(const JobFacts& facts) {
  using Phase = PlaceState::Phase;
  if (!facts.has_record) return facts.live.is_object() ? facts.live.value("state", "running") : "running";
  if (!facts.problem.empty()) return "unreadable";
  std::string own = text_at(facts.status, "state");
  const bool known = facts.scheduler && facts.scheduler->phase != Phase::gone;
  if (own.empty() && !known && !unclear_of(facts).empty()) return facts.cancelled ? "stopped" : "unclear";
  if (facts.cancelled && own == "preempted") own = "stopped";
  if (!facts.scheduler) {
    if (own.empty()) return facts.runner_is_gone ? "failed" : "waiting";
    return facts.runner_is_gone && !is_ended(own) ? "failed" : own;
  }
  const Phase phase = facts.scheduler->phase;
  if (phase == Phase::gone) return is_ended(own) ? own : "unknown";
  if (phase == Phase::running) return is_ended(own) || own.empty() ? "running" : own;
  if (phase == Phase::queued || !is_ended(own) || facts.cancelled) return text_of(phase);
  return own;
}

std::optional<int> exit_code_of(const JobFacts& facts) {
  if (!is_ended(state_of(facts))) return {};
  if (facts.status.is_object() && facts.status.contains("exit_code") && facts.status["exit_code"].is_number())
    return facts.status["exit_code"].get<int>();
  return facts.scheduler ? facts.scheduler->exit_code : std::nullopt;
}

std::string status_text(const JobFacts& facts, std::size_t columns) {
  KeyLines lines(kStatusKeyWidth);
  add_status(facts, lines, columns);
  std::string out = lines.take();
  const std::string ranks = facts.live.is_object() ? ranks_text(facts.live, columns) : "";
  return ranks.empty() ? out : out + "\n" + ranks;
}

std::string describe_text(const JobFacts& facts) {
  KeyLines lines(kDescribeKeyWidth);
  add_status(facts, lines);
  const json& status = facts.status;
  lines.add("submitted", time_text(number_at(facts.submitted, "at")));
  lines.add("first worker", time_text(number_at(status, "first_worker")));
  lines.add("ended", time_text(number_at(status, "ended")));
  lines.add("training seconds", seconds_text(status, "training_seconds"));
  lines.add("billable seconds", seconds_text(status, "billable_seconds"));
  lines.add("starts", text_at(status, "starts"));
  lines.add("nodes", text_at(status, "nodes"));
  lines.add("first failure", text_at(status, "first_failure"));
  lines.add("snapshot stored", time_text(number_at(status, "snapshot_stored")));
  lines.add("file", text_at(facts.submitted, "file"));
  lines.add("source folder", text_at(facts.submitted, "source_dir"));
  lines.add("program", words_at(facts.submitted, "program", [](const std::string& word) { return word; }));
  lines.add("command", words_at(facts.submitted, "command", shell_word));
  lines.add("run id", text_at(facts.submitted, "run_id"));
  lines.add("events", text_at(facts.submitted, "event_log"));
  lines.add("logs", text_at(facts.submitted, "log_folder"));
  lines.add("record", text_at(facts.submitted, "record"));
  return lines.take();
}

json describe_json(const JobFacts& facts) {
  if (!facts.has_record) return {{"id", facts.id}, {"state", state_of(facts)}, {"live", facts.live}};
  json out = facts.status.is_object() ? facts.status : json::object();
  for (const char* ours : {"pid", "pid_start", "training_ms", "node_ms"}) out.erase(ours);
  const auto code = exit_code_of(facts);
  out["id"] = facts.id;
  if (facts.problem.empty()) out["handle"] = text_of(Handle{facts.place, facts.id});
  out["state"] = state_of(facts);
  out["where"] = where_text(facts);
  out["requeues"] = requeues_of(facts);
  out["exit_code"] = code ? json(*code) : json();
  out["reason"] = reason_of(facts);
  out["submitted"] = facts.submitted;
  out["live"] = facts.live;
  return out;
}

void sort_for_list(std::vector<JobFacts>& jobs) {
  const auto order = [](const JobFacts& job) { return std::pair(place_in_list(state_of(job)), -started_at(job)); };
  std::stable_sort(jobs.begin(), jobs.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
}

bool is_current(const JobFacts& facts) { return place_in_list(state_of(facts)) < 2; }

std::string list_text(const std::vector<JobFacts>& jobs) {
  std::vector<std::vector<std::string>> rows{{"JOB", "STATE", "STARTED", "EXIT CODE"}};
  for (const JobFacts& job : jobs) {
    const auto code = exit_code_of(job);
    rows.push_back({job.has_record && job.problem.empty() ? text_of(Handle{job.place, job.id}) : job.id, state_of(job),
                    time_text(started_at(job)), code ? std::to_string(*code) : "-"});
  }
  return table_text(rows);
}

}  // namespace ddprun::launcher
