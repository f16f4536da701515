#include "agent/status/job_summary.h"

#include <algorithm>
#include <map>

namespace ddprun::agent {
namespace {

using rendezvous::Activity;
using rendezvous::NodeReport;
using rendezvous::RankView;

constexpr double kMicro = 1e6;
constexpr std::size_t kNamedRanks = 4;

std::string activity_of_job(const RankView& rank) {
  const bool trains =
      rank.activity == Activity::load || rank.activity == Activity::compute || rank.activity == Activity::wait;
  return trains ? "train" : activity_of(rank);
}

bool holds_up(const RankView& rank) {
  if (rank.activity == Activity::ended) return false;
  return rank.stopped || (rank.activity != Activity::wait && rank.age >= kHoldsUpAfter);
}

std::string in_words(const RankView& rank) {
  return rendezvous::in_words({.rank = rank.rank,
                               .activity = rank.activity,
                               .collective = rank.collective,
                               .step = rank.step,
                               .age = rank.age,
                               .stopped = rank.stopped,
                               .paused = rank.paused,
                               .held = rank.held});
}

std::string count_of_ranks(std::size_t count) { return std::to_string(count) + (count == 1 ? " rank" : " ranks"); }

Awaited awaited_ranks(const std::vector<NodeReport>& nodes) {
  Awaited out;
  std::size_t waiting = 0;
  std::vector<std::string> texts;
  for (const NodeReport& node : nodes)
    for (const RankView& rank : node.ranks) {
      if (!holds_up(rank)) {
        waiting += rank.activity == Activity::wait;
        continue;
      }
      out.ranks.push_back(rank.rank);
      const std::string where = nodes.size() > 1 ? " on " + node.name : "";
      if (texts.size() < kNamedRanks)
        texts.push_back("rank " + std::to_string(rank.rank) + where + " " + in_words(rank));
    }
  if (waiting == 0 || out.ranks.empty()) return {};
  for (const std::string& text : texts) out.text += (out.text.empty() ? "" : ", ") + text;
  if (out.ranks.size() > texts.size()) out.text += " and " + count_of_ranks(out.ranks.size() - texts.size()) + " more";
  out.text += "; " + count_of_ranks(waiting) + (waiting == 1 ? " waits" : " wait");
  return out;
}

Awaited awaited_nodes(const rendezvous::JobView& job) {
  Awaited out{.nodes = job.awaited};
  for (const std::string& node : job.awaited) out.text += (out.text.empty() ? "" : ", ") + node;
  return out;
}

// Of the first node that has measured the round that runs.
rendezvous::TimeAccount account_of(const rendezvous::JobView& job, const std::vector<NodeReport>& nodes,
                                   bool stands_still) {
  if (!job.round_age) return job.account.spent;
  const auto measured =
      std::find_if(nodes.begin(), nodes.end(), [](const NodeReport& node) { return node.spent.has_value(); });
  if (measured == nodes.end()) return so_far(job.account, {}, *job.round_age);
  rendezvous::TimeAccount out = so_far(job.account, *measured->spent, *job.round_age);
  if (stands_still)
    out.move(rendezvous::TimeKind::productive, rendezvous::TimeKind::hang, measured->spent->since_progress);
  return out;
}

// A rank may be evaluating or saving: how long that takes is not known either.
bool stands_still(const StatusAnswer& answer, double steps_per_second) {
  if (!answer.job || answer.job->phase != rendezvous::JobPhase::running) return true;
  const std::chrono::duration<double> steps(kStillAfterSteps / steps_per_second);
  const auto is_still = [&](const RankView& rank) {
    if (rank.activity == Activity::ended || !rank.step) return false;
    return rank.stopped || rank.paused || (rank.age >= kStillAfter && rank.age >= steps);
  };
  return std::any_of(answer.nodes.begin(), answer.nodes.end(), [&](const NodeReport& node) {
    return std::any_of(node.ranks.begin(), node.ranks.end(), is_still);
  });
}

// Of the first node that has measured this round.
double time_per_training(const std::vector<NodeReport>& nodes) {
  for (const NodeReport& node : nodes)
    if (node.spent && node.spent->train > Duration::zero())
      return static_cast<double>((node.spent->train + node.spent->evaluate + node.spent->save).count()) /
             static_cast<double>(node.spent->train.count());
  return 1;
}

std::optional<JobOutlook> outlook_of_job(const JobSummary& summary, double pace, const StatusAnswer& answer) {
  if (!summary.step || !summary.total_steps) return {};
  return outlook_of({.step = *summary.step,
                     .total_steps = *summary.total_steps,
                     .steps_per_second = pace,
                     .time_per_training = time_per_training(answer.nodes),
                     .stands_still = pace <= 0 || summary.condition.condition == Condition::stands_still ||
                                     stands_still(answer, pace)});
}

std::optional<double> mean_loss(const std::vector<NodeReport>& nodes) {
  double sum = 0;
  int count = 0;
  for (const NodeReport& node : nodes)
    for (const RankView& rank : node.ranks)
      if (rank.loss) sum += *rank.loss, ++count;
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

}  // namespace

std::string activity_of(const RankView& rank) {
  return rank.still ? "sleeps" : rank.silent ? "runs" : name_of(rank.activity);
}

const char* name_of(rendezvous::JobPhase phase) { return kJobPhases.at(static_cast<std::size_t>(phase)).name; }
const char* name_of(rendezvous::NodePlace place) { return kNodePlaces.at(static_cast<std::size_t>(place)).name; }

std::array<RestartsByCause, 10> restarts_by_cause(const rendezvous::RestartCounts& counts) {
  return {{{"error", counts.errors},
           {"crash", counts.crashes},
           {"out_of_memory", counts.out_of_memory},
           {"hang", counts.hangs},
           {"start", counts.starts},
           {"unkillable", counts.unkillable},
           {"usage", counts.usage},
           {"lost_node", counts.lost_nodes},
           {"preemption", counts.preemptions},
           {"resize", counts.resizes}}};
}

JobSummary summary_of(const StatusAnswer& answer) {
  JobSummary out;
  std::map<std::string, int> activities;
  for (const NodeReport& node : answer.nodes) {
    if (node.step_us > 0 && !out.steps_per_second) out.steps_per_second = kMicro / static_cast<double>(node.step_us);
    for (const RankView& rank : node.ranks) {
      ++activities[activity_of_job(rank)];
      out.is_silent = out.is_silent.value_or(true) && rank.silent;
      if (rank.step) out.step = std::min(out.step.value_or(*rank.step), *rank.step);
      out.total_steps = std::max(out.total_steps, rank.total_steps);
      if (!rank.snapshot_step || (out.snapshot_step && *rank.snapshot_step < *out.snapshot_step)) continue;
      const bool is_newer = !out.snapshot_step || *rank.snapshot_step > *out.snapshot_step;
      out.snapshot_step = rank.snapshot_step;
      out.snapshot_age = is_newer ? rank.snapshot_age : std::min(*out.snapshot_age, rank.snapshot_age);
      if (is_newer) out.snapshot_bytes.reset();
      if (rank.snapshot_bytes > 0) out.snapshot_bytes = out.snapshot_bytes.value_or(0) + rank.snapshot_bytes;
    }
  }
  out.condition = condition_of(answer);
  out.outlook = outlook_of_job(out, out.steps_per_second.value_or(0), answer);
  if (out.steps_per_second && without_step(answer.nodes)) out.steps_per_second = 0;
  out.loss = mean_loss(answer.nodes);
  const auto most = std::max_element(activities.begin(), activities.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != activities.end()) out.activity = most->first;
  if (answer.job)
    out.account = account_of(*answer.job, answer.nodes, out.condition.condition == Condition::stands_still);
  const bool gathers = answer.job && answer.job->phase == rendezvous::JobPhase::waiting;
  out.awaited = gathers ? awaited_nodes(*answer.job) : awaited_ranks(answer.nodes);
  return out;
}

}  // namespace ddprun::agent
