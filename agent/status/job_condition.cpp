#include "agent/status/job_condition.h"

#include <algorithm>
#include <functional>

#include "agent/status/job_summary.h"
#include "rendezvous/base/duration_text.h"
#include "rendezvous/base/formatted.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/coordination/account/ranks_in_words.h"

namespace ddprun::agent {
namespace {

using rendezvous::Activity;
using rendezvous::JobPhase;
using rendezvous::JobView;
using rendezvous::NodeReport;
using rendezvous::RankView;
using rendezvous::SlowRank;

constexpr int kMedianPercent = 100;
constexpr std::size_t kNamedRanksMax = 8;  // of more, how many they are

struct PlacedRank {
  const RankView* view = nullptr;
  const NodeReport* node = nullptr;
};
using Ranks = std::vector<PlacedRank>;

// That have not ended.
Ranks ranks_of(const std::vector<NodeReport>& nodes) {
  Ranks out;
  for (const NodeReport& node : nodes)
    for (const RankView& rank : node.ranks)
      if (rank.activity != Activity::ended) out.push_back({&rank, &node});
  return out;
}

bool is_halted(const PlacedRank& rank) { return rank.view->stopped || rank.view->paused; }
bool waits(const PlacedRank& rank) { return rank.view->activity == Activity::wait && !is_halted(rank); }

Ranks chosen(const Ranks& from, const std::function<bool(const PlacedRank&)>& test) {
  Ranks out;
  std::copy_if(from.begin(), from.end(), std::back_inserter(out), test);
  return out;
}

Duration longest(const Ranks& ranks) {
  Duration out = {};
  for (const PlacedRank& rank : ranks) out = std::max(out, rank.view->age);
  return out;
}

std::string state_in_words(const RankView& rank) {
  if (rank.paused) return "paused";
  if (rank.stopped) return "stopped";
  if (!rank.held.empty()) return "held by the kernel in " + rank.held;
  switch (rank.activity) {
    case Activity::load:
      return "loading data";
    case Activity::save:
      return "saving";
    case Activity::evaluate:
      return "evaluating";
    case Activity::start:
      return "starting";
    case Activity::end:
    case Activity::ended:
      return "ending";
    case Activity::compute:
    case Activity::wait:
      break;
  }
  return "computing";
}

// "rank 2 on n1", "ranks 0 and 1", "253 ranks", "all ranks"
std::string who(const Ranks& ranks, std::size_t all, bool several_nodes) {
  if (ranks.size() > 1 && ranks.size() == all) return "all ranks";
  if (ranks.size() > kNamedRanksMax) return std::to_string(ranks.size()) + " ranks";
  std::vector<int> numbers;
  for (const PlacedRank& rank : ranks) numbers.push_back(rank.view->rank);
  const bool together =
      std::all_of(ranks.begin(), ranks.end(), [&](const auto& rank) { return rank.node == ranks[0].node; });
  return rendezvous::ranks_in_words(numbers) + (several_nodes && together ? " on " + ranks[0].node->name : "");
}

// "stopped", "saving, computing"
std::string states_in_words(const Ranks& ranks) {
  std::vector<std::string> states;
  for (const PlacedRank& rank : ranks)
    if (std::string state = state_in_words(*rank.view); std::find(states.begin(), states.end(), state) == states.end())
      states.push_back(std::move(state));
  std::string out;
  for (const std::string& state : states) out += (out.empty() ? "" : ", ") + state;
  return out;
}

// Whom the others wait for, and what those do. `world_size`: how many there are.
std::string why_it_stands_still(const Ranks& all, std::size_t world_size, bool several_nodes) {
  const Ranks halted = chosen(all, is_halted);
  const Ranks waiting = chosen(all, waits);
  const Ranks busy = halted.empty() ? chosen(all, [](const auto& rank) { return !waits(rank); }) : halted;
  if (busy.empty())
    return who(waiting, world_size, several_nodes) + (waiting.size() == 1 ? " waits in " : " wait in ") +
           (waiting[0].view->collective.empty() ? "a collective" : visible(waiting[0].view->collective));
  const std::string state = states_in_words(busy);
  if (waiting.empty()) return who(busy, world_size, several_nodes) + (busy.size() == 1 ? " is " : " are ") + state;
  return who(waiting, world_size, false) + (waiting.size() == 1 ? " waits for " : " wait for ") +
         who(busy, world_size, several_nodes) + " (" + state + ")";
}

std::string slowed_by(const std::vector<SlowRank>& slow) {
  const SlowRank& worst =
      *std::max_element(slow.begin(), slow.end(), [](const auto& a, const auto& b) { return a.percent < b.percent; });
  std::string out = "rank " + std::to_string(worst.rank) + (worst.phase == Activity::load ? " loads " : " computes ") +
                    formatted("%.1fx", static_cast<double>(worst.percent) / kMedianPercent) + " slower than the median";
  if (slow.size() > 1) out += ", and " + std::to_string(slow.size() - 1) + " more";
  return out;
}

bool saves(const PlacedRank& rank) { return rank.view->activity == Activity::save; }

// Everybody is one of these, or waits for those: for how long.
std::optional<Duration> all_in(const std::vector<Activity>& activities, const Ranks& ranks) {
  const Ranks those = chosen(ranks, [&](const auto& rank) {
    return std::find(activities.begin(), activities.end(), rank.view->activity) != activities.end();
  });
  if (those.empty() || those.size() + chosen(ranks, waits).size() != ranks.size()) return {};
  return longest(those);
}

std::string why_it_waits(const JobView& job) {
  std::string out;
  for (const std::string& node : job.awaited) out += (out.empty() ? "for " : ", ") + visible(node);
  if (!out.empty()) return out;
  if (job.backoff > Duration::zero())
    return "the next round begins in " + duration_text(std::chrono::duration<double>(job.backoff).count());
  return "for nodes";
}

std::string silent_in_words(const std::vector<std::string>& silent) {
  std::string out;
  for (const std::string& node : silent) out += (out.empty() ? "" : ", ") + visible(node);
  return out + (silent.size() == 1 ? " has" : " have") + " not answered";
}

JobCondition of_running(const StatusAnswer& seen) {
  const JobView& job = *seen.job;
  const Ranks ranks = ranks_of(seen.nodes);
  std::size_t told = 0;
  for (const NodeReport& node : seen.nodes) told += node.ranks.size();
  if (ranks.empty()) return {.condition = told > 0 ? Condition::ending : Condition::running};
  const bool sees_all = told >= static_cast<std::size_t>(job.world_size), several_nodes = seen.nodes.size() > 1;
  const std::size_t all = sees_all ? ranks.size() : static_cast<std::size_t>(job.world_size);
  const Ranks paused = chosen(ranks, [](const auto& rank) { return rank.view->paused; });
  if (!paused.empty())
    return {Condition::paused, {}, paused.size() == ranks.size() ? "" : who(paused, all, several_nodes)};
  if (const Ranks halted = chosen(ranks, is_halted); !halted.empty())
    return {Condition::stands_still, longest(halted), why_it_stands_still(ranks, all, several_nodes)};
  if (const auto since = all_in({Activity::save, Activity::evaluate}, ranks))
    return {chosen(ranks, saves).empty() ? Condition::evaluating : Condition::saving, since};
  if (all_in({Activity::end}, ranks)) return {Condition::ending};
  // Of programs that report nothing it is not known whether they have begun.
  const bool reports = std::any_of(seen.nodes.begin(), seen.nodes.end(),
                                   [](const auto& node) { return node.spent && node.spent->reports; });
  if (const auto since = all_in({Activity::start}, ranks); since && reports) return {Condition::starting, since};
  const auto since = without_step(seen.nodes);
  if (since && (sees_all || !seen.silent.empty()))
    return {Condition::stands_still, since,
            why_it_stands_still(ranks, all, several_nodes || !sees_all) +
                (sees_all ? "" : "; " + silent_in_words(seen.silent))};
  if (!job.slow.empty()) return {Condition::slowed, {}, slowed_by(job.slow)};
  return {Condition::running};
}

}  // namespace

const char* name_of(Condition condition) { return kConditions.at(static_cast<std::size_t>(condition)).name; }

Level level_of(Condition condition) { return kConditions.at(static_cast<std::size_t>(condition)).level; }

const char* name_of(Level level) {
  switch (level) {
    case Level::good:
      return "good";
    case Level::busy:
      return "busy";
    case Level::attention:
      return "attention";
    case Level::bad:
      return "bad";
    case Level::over:
      break;
  }
  return "over";
}

std::string in_words(const JobCondition& condition) {
  std::string out = name_of(condition.condition);
  if (condition.since && condition.condition == Condition::ended)
    out += " well after " + duration_text(std::chrono::duration<double>(*condition.since).count());
  else if (condition.since)
    out += " for " + duration_text(std::chrono::duration<double>(*condition.since).count());
  return condition.why.empty() ? out : out + ": " + condition.why;
}

JobCondition condition_of(const StatusAnswer& seen) {
  if (!seen.job) return {.condition = Condition::unknown, .why = seen.problem};
  switch (seen.job->phase) {
    case JobPhase::waiting:
      return {.condition = Condition::waiting, .why = why_it_waits(*seen.job)};
    case JobPhase::starting:
      return {.condition = Condition::starting};
    case JobPhase::over:
      return {.condition = Condition::ended};
    case JobPhase::running:
      break;
  }
  return of_running(seen);
}

JobCondition condition_of(const rendezvous::Outcome& outcome, Duration after, const std::string& cause) {
  using rendezvous::Verdict;
  if (outcome.verdict == Verdict::success) return {.condition = Condition::ended, .since = after};
  if (!cause.empty()) return {.condition = Condition::failed, .why = cause};
  const bool failed = outcome.verdict != Verdict::interrupted && outcome.verdict != Verdict::stopped;
  return {.condition = failed ? Condition::failed : Condition::stopped, .why = outcome.reason};
}

std::optional<Duration> without_step(const std::vector<NodeReport>& nodes) {
  const Ranks ranks = ranks_of(nodes);
  if (const Ranks halted = chosen(ranks, is_halted); !halted.empty()) return longest(halted);
  const auto measured = std::find_if(nodes.begin(), nodes.end(), [](const auto& node) { return node.step_us > 0; });
  const Duration due =
      measured == nodes.end()
          ? Duration(kOverdueInFirstSteps)
          : std::max<Duration>(kOverdueAfter, kOverdueAfterSteps * std::chrono::microseconds(measured->step_us));
  std::optional<Duration> out;
  for (const PlacedRank& rank : ranks) {
    if (rank.view->silent || !rank.view->step || rank.view->activity == Activity::start || rank.view->age < due)
      return {};
    out = out ? std::min(*out, rank.view->age) : rank.view->age;
  }
  return out;
}

std::string trouble_of(const RankView& rank, const std::vector<SlowRank>& slow, bool holds_up) {
  if (rank.activity == Activity::ended) return {};
  if (rank.paused) return "paused";
  if (rank.stopped) return "stopped";
  if (!rank.held.empty()) return "held by the kernel";
  if (holds_up) return "holds up";
  const auto own = std::find_if(slow.begin(), slow.end(), [&](const auto& one) { return one.rank == rank.rank; });
  return own == slow.end() ? "" : "slow " + formatted("%.1fx", static_cast<double>(own->percent) / kMedianPercent);
}

}  // namespace ddprun::agent
