#include "agent/status/status_json.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ddprun::agent {
namespace {

using nlohmann::json;
using rendezvous::JobView;
using rendezvous::NodeReport;
using rendezvous::NodeView;
using rendezvous::OutputLine;
using rendezvous::RankView;

constexpr double kMilli = 1e3, kPercent = 100;

double seconds(Duration time) {
  const double exact = std::chrono::duration<double>(time).count();
  return std::round(exact * kMilli) / kMilli;
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

json ranks_of(const NodeView& node) {
  json ranks = json::array();
  for (int i = 0; node.group_rank >= 0 && i < node.workers; ++i) ranks.push_back(node.first_rank + i);
  return ranks;
}

json json_of(const NodeView& node) {
  return {{"name", node.name},
          {"host", node.host},
          {"state", name_of(node.place)},
          {"group_rank", node.group_rank < 0 ? json() : json(node.group_rank)},
          {"ranks", ranks_of(node)},
          {"workers", node.workers},
          {"reason", node.why}};
}

json json_of(const OutputLine& line) { return {{"line", line.text}, {"age_seconds", seconds(line.age)}}; }

json own_output_of(const RankView& rank, const NodeReport& node) {
  const auto own = std::find_if(node.last_lines.begin(), node.last_lines.end(),
                                [&](const OutputLine& line) { return line.rank == rank.rank; });
  return own == node.last_lines.end() ? json() : json_of(*own);
}

json json_of(const RankView& rank, const NodeReport& node, const std::string& trouble) {
  return {{"rank", rank.rank},
          {"trouble", trouble},
          {"node", node.name},
          {"group_rank", node.group_rank},
          {"activity", activity_of(rank)},
          {"collective", rank.collective},
          {"step", or_null(rank.step)},
          {"age_seconds", seconds(rank.age)},
          {"snapshot_step", or_null(rank.snapshot_step)},
          {"snapshot_age_seconds", rank.snapshot_step ? json(seconds(rank.snapshot_age)) : json()},
          {"snapshot_bytes", rank.snapshot_bytes == 0 ? json() : json(rank.snapshot_bytes)},
          {"samples_per_second", rank.samples_per_second},
          {"loss", or_null(rank.loss)},
          {"memory_bytes", rank.memory},
          {"processors", rank.processors ? json(std::round(*rank.processors * kPercent) / kPercent) : json()},
          {"silent", rank.silent},
          {"load_seconds", seconds(rank.load)},
          {"compute_seconds", seconds(rank.compute)},
          {"wait_seconds", seconds(rank.wait)},
          {"pid", rank.pid == 0 ? json() : json(rank.pid)},
          {"stopped", rank.stopped},
          {"paused", rank.paused},
          {"held", rank.held},
          {"last_output", own_output_of(rank, node)}};
}

// The newest one of all nodes.
json last_output_of(const std::vector<NodeReport>& nodes) {
  const OutputLine* newest = nullptr;
  const NodeReport* its_node = nullptr;
  for (const NodeReport& node : nodes)
    for (const OutputLine& line : node.last_lines) {
      if (newest && newest->age <= line.age) continue;
      newest = &line;
      its_node = &node;
    }
  if (!newest) return {};
  json out = json_of(*newest);
  out["rank"] = newest->rank == rendezvous::kSeveralRanks ? json() : json(newest->rank);
  out["node"] = its_node->name;
  return out;
}

json json_of(const JobOutlook& outlook) {
  return {{"done_share", outlook.done_share},
          {"percent", outlook.percent},
          {"seconds_left", outlook.seconds_left ? json(std::ceil(*outlook.seconds_left)) : json()},
          {"text", in_words(outlook)}};
}

json json_of(const LastFailure& failure) {
  return {{"round", failure.round},
          {"rank", or_null(failure.rank)},
          {"node", failure.node},
          {"text", failure.text},
          {"age_seconds", seconds(failure.age)}};
}

json restarts_of(const JobView& job) {
  json by_cause;
  for (const RestartsByCause& one : restarts_by_cause(job.counts)) by_cause[one.cause] = one.restarts;
  return {{"limit", job.restarts_max}, {"charged", job.counts.spent()}, {"by_cause", by_cause}};
}

std::string coordinator_of(const JobView& job) {
  const auto node =
      std::find_if(job.nodes.begin(), job.nodes.end(), [&](const NodeView& one) { return one.id == job.coordinator; });
  return node == job.nodes.end() ? "" : node->name;
}

// By kind, in seconds; they add up to the total. What silent ranks do is not known to be useful.
json time_of(const rendezvous::TimeAccount& account, bool silent) {
  json out{{"total", seconds(account.total())},
           {"useful_share", silent ? json() : json(std::round(account.ettr() * kMilli) / kMilli)}};
  for (const rendezvous::TimeKindName& kind : rendezvous::kTimeKinds) out[kind.name] = seconds(account[kind.kind]);
  return out;
}

json nodes_of(const JobView& job) {
  json out = json::array();
  for (const NodeView& node : job.nodes) out.push_back(json_of(node));
  return out;
}

json slow_of(const JobView& job) {
  json out = json::array();
  for (const rendezvous::SlowRank& slow : job.slow)
    out.push_back(
        {{"rank", slow.rank}, {"phase", rendezvous::name_of(slow.phase)}, {"ratio", slow.percent / kPercent}});
  return out;
}

void add_job(const JobView& job, json& out) {
  out["state"] = name_of(job.phase);
  out["state_seconds"] = seconds(job.since);
  out["round"] = job.round;
  out["world_size"] = job.world_size;
  out["nodes_min"] = job.nodes_min;
  out["nodes_max"] = job.nodes_max;
  out["coordinator"] = coordinator_of(job);
  out["elections"] = job.term;
  out["backoff_seconds"] = seconds(job.backoff);
  out["restarts"] = restarts_of(job);
  out["nodes"] = nodes_of(job);
  out["slow_ranks"] = slow_of(job);
}

}  // namespace

json to_json(const JobCondition& condition) {
  return {{"kind", name_of(condition.condition)},
          {"level", name_of(level_of(condition.condition))},
          {"seconds", condition.since ? json(seconds(*condition.since)) : json()},
          {"why", condition.why},
          {"text", in_words(condition)}};
}

json to_json(const StatusAnswer& answer) {
  json out{{"run_id", answer.run_id},      {"program", answer.program},
           {"answered_by", answer.host},   {"run_seconds", seconds(answer.run_time)},
           {"state", "unknown"},           {"problem", answer.problem},
           {"silent_nodes", answer.silent}};
  if (answer.job) add_job(*answer.job, out);
  const JobSummary summary = summary_of(answer);
  out["condition"] = to_json(summary.condition);
  out["last_failure"] = answer.last_failure ? json_of(*answer.last_failure) : json();
  out["activity"] = summary.activity;
  out["step"] = or_null(summary.step);
  out["steps_per_second"] = or_null(summary.steps_per_second);
  out["total_steps"] = or_null(summary.total_steps);
  out["progress"] = summary.outlook ? json_of(*summary.outlook) : json();
  out["loss"] = or_null(summary.loss);
  out["snapshot_step"] = or_null(summary.snapshot_step);
  out["snapshot_age_seconds"] = summary.snapshot_age ? json(seconds(*summary.snapshot_age)) : json();
  out["snapshot_bytes"] = or_null(summary.snapshot_bytes);
  out["last_output"] = last_output_of(answer.nodes);
  out["waits_for"] = {
      {"ranks", summary.awaited.ranks}, {"nodes", summary.awaited.nodes}, {"text", summary.awaited.text}};
  out["time"] = summary.account ? time_of(*summary.account, summary.is_silent.value_or(false)) : json();
  const std::set<int> hold_up(summary.awaited.ranks.begin(), summary.awaited.ranks.end());
  out["ranks"] = json::array();
  for (const rendezvous::NodeReport& node : answer.nodes)
    if (node.declined_fault != 0) out["declined_faults"].push_back(node.declined_fault);
  for (const rendezvous::NodeReport& node : answer.nodes)
    for (const RankView& rank : node.ranks)
      out["ranks"].push_back(
          json_of(rank, node,
                  trouble_of(rank, answer.job ? answer.job->slow : std::vector<rendezvous::SlowRank>(),
                             hold_up.contains(rank.rank))));
  return out;
}

}  // namespace ddprun::agent
