#include "agent/status/metrics_text.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace ddprun::agent {
namespace {

using rendezvous::Activity;
using rendezvous::JobView;
using rendezvous::NodeView;
using rendezvous::RankView;

constexpr auto kGauge = MetricKind::gauge;
constexpr auto kCounter = MetricKind::counter;
constexpr double kPercentOfMedian = 100;

double in_seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

void write_agent(const MetricsValues& values, MetricSink& to) {
  const StatusAnswer& status = values.status;
  to.begin("ddprun_build_info", kGauge, "The version of this node's ddprun.");
  to.sample({{"version", values.version}}, 1);
  to.begin("ddprun_job_info", kGauge, "The job and this node.");
  to.sample({{"run_id", status.run_id}, {"host", status.host}}, 1);
  to.single("ddprun_uptime_seconds", kGauge, "For how long this node's ddprun runs.", in_seconds(status.run_time));
  to.single("ddprun_ready", kGauge, "1 while a round runs on this node, as /readyz says.", values.ready);
  to.single("ddprun_coordinator_reachable", kGauge, "1 if the job's coordinator has answered this node.",
            status.job.has_value());
}

void write_state(const JobView& job, MetricSink& to) {
  to.begin("ddprun_job_state", kGauge, "1 for the state the job is in.");
  for (const NamedPhase& one : kJobPhases) to.sample({{"state", one.name}}, one.phase == job.phase);
  to.single("ddprun_job_state_seconds", kGauge, "For how long the job is in this state.", in_seconds(job.since));
  to.single("ddprun_round", kGauge, "The last round that was formed; 0: none yet.", job.round);
  to.single("ddprun_world_size", kGauge, "Ranks of the round; 0: there is none.", job.world_size);
  to.single("ddprun_backoff_seconds", kGauge, "Time until a round may form again.", in_seconds(job.backoff));
}

void write_nodes(const JobView& job, MetricSink& to) {
  to.begin("ddprun_nodes", kGauge, "Nodes of the job, by state.");
  for (const NamedPlace& one : kNodePlaces)
    to.sample({{"state", one.name}},
              static_cast<double>(std::count_if(job.nodes.begin(), job.nodes.end(),
                                                [&](const NodeView& node) { return node.place == one.place; })));
  to.single("ddprun_nodes_min", kGauge, "The fewest nodes that a round may have.", job.nodes_min);
  to.single("ddprun_nodes_max", kGauge, "The most nodes that a round may have.", job.nodes_max);
}

void write_restarts(const JobView& job, MetricSink& to) {
  to.begin("ddprun_restarts_total", kCounter, "Restarts of the job's workers, by cause.");
  for (const RestartsByCause& one : restarts_by_cause(job.counts)) to.sample({{"cause", one.cause}}, one.restarts);
  to.single("ddprun_restarts_charged", kGauge, "Restarts that count against --max-restarts.", job.counts.spent());
  to.single("ddprun_restarts_max", kGauge, "The limit of --max-restarts.", job.restarts_max);
  to.single("ddprun_preemptions_total", kCounter, "Restarts because a machine was preempted.", job.counts.preemptions);
  to.single("ddprun_elections_total", kCounter, "Coordinators that were elected after the job's first one.", job.term);
}

void write_stragglers(const JobView& job, MetricSink& to) {
  to.begin("ddprun_straggler_score", kGauge,
           "Time of a named slow rank in that phase, as a ratio to the median of all ranks.");
  for (const rendezvous::SlowRank& slow : job.slow)
    to.sample({{"rank", std::to_string(slow.rank)}, {"phase", rendezvous::name_of(slow.phase)}},
              slow.percent / kPercentOfMedian);
}

// Gauges: what was productive turns out to be lost when a later round does it again.
void write_time(const rendezvous::TimeAccount& account, bool silent, MetricSink& to) {
  using rendezvous::TimeKind;
  if (!silent)  // else it is not known
    to.single("ddprun_goodput_seconds", kGauge, "Time of training and evaluation that counts, as known by now.",
              in_seconds(account[TimeKind::productive]));
  to.begin("ddprun_badput_seconds", kGauge, "All other time of the job, by what it went to.");
  for (const rendezvous::TimeKindName& kind : rendezvous::kTimeKinds)
    if (kind.kind != TimeKind::productive) to.sample({{"kind", kind.name}}, in_seconds(account[kind.kind]));
  if (!silent) to.single("ddprun_ettr_ratio", kGauge, "The share of the job's time that counts.", account.ettr());
}

void write_condition(Condition now, MetricSink& to) {
  to.begin("ddprun_job_condition", kGauge, "1 for how the job is, as this node sees it; 0 for the others.");
  for (const NamedCondition& one : kConditions) to.sample({{"condition", one.name}}, one.condition == now ? 1 : 0);
}

void write_job(const JobView& job, MetricSink& to) {
  write_state(job, to);
  write_nodes(job, to);
  write_restarts(job, to);
  write_stragglers(job, to);
}

// A rank of this node, with its labels.
struct Labelled {
  const RankView& rank;
  MetricLabels labels;
};

std::vector<Labelled> labelled_ranks(const StatusAnswer& status) {
  std::vector<Labelled> out;
  for (const rendezvous::NodeReport& node : status.nodes)
    for (const RankView& rank : node.ranks)
      out.push_back({rank, {{"host", status.host}, {"rank", std::to_string(rank.rank)}}});
  return out;
}

void write_node(const StatusAnswer& status, const std::vector<Labelled>& ranks, MetricSink& to) {
  to.begin("ddprun_workers", kGauge, "Workers of this node, by what they do.");
  for (const rendezvous::NamedActivity& one : rendezvous::kActivities)
    to.sample({{"state", one.name}},
              static_cast<double>(std::count_if(ranks.begin(), ranks.end(), [&](const Labelled& worker) {
                return worker.rank.activity == one.activity;
              })));
  const JobSummary summary = summary_of(status);
  if (summary.steps_per_second)
    to.single("ddprun_steps_per_second", kGauge, "Pace of this node's last steps; 0 once one is overdue.",
              *summary.steps_per_second);
  if (summary.loss)
    to.single("ddprun_loss", kGauge, "Mean of the last training losses that ranks of this node have reported.",
              *summary.loss);
  if (summary.total_steps)
    to.single("ddprun_last_step", kGauge, "Number of the step that is to be the last one.",
              static_cast<double>(*summary.total_steps));
  if (!summary.snapshot_step) return;
  to.single("ddprun_snapshot_step", kGauge, "Step of the newest snapshot that a rank of this node has reported.",
            static_cast<double>(*summary.snapshot_step));
  to.single("ddprun_snapshot_age_seconds", kGauge, "Time since that snapshot was written.",
            in_seconds(*summary.snapshot_age));
  if (summary.snapshot_bytes)
    to.single("ddprun_snapshot_bytes", kGauge, "What ranks of this node have written for that snapshot.",
              static_cast<double>(*summary.snapshot_bytes));
}

using ValueOfRank = std::function<std::optional<double>(const RankView&)>;

void write_by_rank(const char* name, const char* help, const std::vector<Labelled>& ranks, MetricSink& to,
                   const ValueOfRank& value_of) {
  to.begin(name, kGauge, help);
  for (const Labelled& one : ranks)
    if (const auto value = value_of(one.rank)) to.sample(one.labels, *value);
}

// Of ranks that report beats.
void write_phases(const std::vector<Labelled>& ranks, MetricSink& to) {
  static constexpr std::pair<Activity, Duration RankView::*> kPhases[] = {
      {Activity::load, &RankView::load}, {Activity::compute, &RankView::compute}, {Activity::wait, &RankView::wait}};
  to.begin("ddprun_phase_seconds_total", MetricKind::counter_of_round,
           "Time that a rank has spent in that phase, in this round.");
  for (const Labelled& one : ranks) {
    if (one.rank.load + one.rank.compute + one.rank.wait == Duration::zero()) continue;
    MetricLabels labels = one.labels;
    labels.emplace_back("phase", "");
    for (const auto& [phase, time] : kPhases) {
      labels.back().second = rendezvous::name_of(phase);
      to.sample(labels, in_seconds(one.rank.*time));
    }
  }
}

void write_ranks(const std::vector<Labelled>& ranks, MetricSink& to) {
  write_by_rank("ddprun_step", "The last step that the rank has completed.", ranks, to,
                [](const RankView& rank) { return rank.step; });
  write_by_rank("ddprun_heartbeat_age_seconds", "Time since a rank that reports steps has reported anything.", ranks,
                to,
                [](const RankView& rank) { return rank.step ? std::optional(in_seconds(rank.age)) : std::nullopt; });
  write_by_rank("ddprun_samples_per_second", "Samples that the rank trains on per second, as it reports.", ranks, to,
                [](const RankView& rank) {
                  return rank.samples_per_second > 0 ? std::optional<double>(rank.samples_per_second) : std::nullopt;
                });
  write_by_rank("ddprun_worker_rss_bytes", "Resident memory of the largest of the rank's processes.", ranks, to,
                [](const RankView& rank) {
                  return rank.memory > 0 ? std::optional(static_cast<double>(rank.memory)) : std::nullopt;
                });
  write_phases(ranks, to);
}

// As in ddprun_restarts_total: "out_of_memory".
std::string label_of(const char* name) {
  std::string out = name;
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

void write_failures(const JobMeasures& measures, MetricSink& to) {
  to.begin("ddprun_failures_total", kCounter, "Workers of this node that have failed first in their round, by class.");
  for (const rendezvous::NamedFailureClass& one : rendezvous::kFailureClasses)
    if (one.kind != rendezvous::FailureClass::clean && one.kind != rendezvous::FailureClass::lost_node)
      to.sample({{"class", label_of(one.name)}}, static_cast<double>(measures.failures(one.kind)));
  if (measures.oom_kills)
    to.single("ddprun_oom_kills_total", kCounter, "Processes that the kernel has killed for memory.",
              static_cast<double>(*measures.oom_kills));
}

void write_store(const StoreUse& store, MetricSink& to) {
  to.begin("ddprun_store_requests_total", kCounter, "Requests to the stores of rounds on this node, by operation.");
  for (const auto& [operation, count] : store.requests) to.sample({{"op", operation}}, static_cast<double>(count));
  to.single("ddprun_store_connections", kGauge, "Clients of the store on this node.",
            static_cast<double>(store.connections));
}

void write_measures(const JobMeasures& measures, MetricSink& to) {
  to.begin("ddprun_round_form_seconds", MetricKind::histogram,
           "Time from this node's offer for a round until its workers had been started.");
  to.sample({}, measures.round_form());
  to.begin("ddprun_recovery_seconds", MetricKind::histogram,
           "Time from a round's end until the workers of the next had been started, by cause.");
  for (const auto& [cause, times] : measures.recoveries()) to.sample({{"cause", cause}}, times);
  to.begin("ddprun_step_seconds", MetricKind::histogram, "Time of the steps of this node's first rank.");
  to.sample({}, measures.steps());
  to.single("ddprun_snapshot_stall_seconds_total", kCounter, "Time in which this node's first rank has saved.",
            in_seconds(measures.snapshot_stall));
  write_failures(measures, to);
  if (!measures.store.requests.empty()) write_store(measures.store, to);
}

}  // namespace

void write_metrics(const MetricsValues& values, MetricSink& to) {
  write_agent(values, to);
  if (values.status.job) write_job(*values.status.job, to);
  const JobSummary summary = summary_of(values.status);
  if (values.status.job) write_condition(summary.condition.condition, to);
  if (summary.account) write_time(*summary.account, summary.is_silent.value_or(false), to);
  const std::vector<Labelled> ranks = labelled_ranks(values.status);
  write_node(values.status, ranks, to);
  write_ranks(ranks, to);
  if (values.measures) write_measures(*values.measures, to);
}

std::string metrics_text(const MetricsValues& values, MetricsFormat format) {
  MetricWriter to(format);
  write_metrics(values, to);
  return to.take();
}

}  // namespace ddprun::agent
