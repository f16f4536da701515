#include "rendezvous/coordination/straggler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ddprun::rendezvous {
namespace {

constexpr std::array<Activity, 2> kPhaseNames = {Activity::compute, Activity::load};
constexpr std::chrono::seconds kStaleAfter{10};
constexpr int kStaleWindows = 3;
constexpr std::size_t kSmoothed = 3;     // windows of all ranks
constexpr std::size_t kMedianShare = 4;  // medians are taken again when this part of the ranks has a new window
constexpr double kNormal = 1.1;          // to the best: no longer slower
constexpr double kRatioMax = 100;
constexpr double kLeastMicroseconds = 1;  // what is compared with nothing is compared with this
constexpr double kLongestStep = 1e12;     // microseconds

// The upper or lower one of an even number.
double middle_of(std::vector<double>& values, bool upper) {
  const std::size_t at = upper ? values.size() / 2 : (values.size() - 1) / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

double ratio_of(double own, double other) {
  return std::min(kRatioMax, std::max(own, kLeastMicroseconds) / std::max(other, kLeastMicroseconds));
}

int percent(double ratio) { return static_cast<int>(std::lround(100 * ratio)); }

}  // namespace

std::string in_words(const PaceChange& change, const std::string& host) {
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.1fx", change.percent / 100.0);
  const bool all = change.kind == PaceChange::Kind::all_slower || change.kind == PaceChange::Kind::all_normal;
  const std::string who =
      all ? "the ranks" : "rank " + std::to_string(change.rank) + (host.empty() ? "" : " (" + host + ")");
  const std::string than = all ? " than before" : " than the median";
  const std::string what = change.phase == Activity::load
                               ? (all ? " wait " : " waits ") + std::string(ratio) + " longer for data" + than
                               : (all ? " compute " : " computes ") + std::string(ratio) + " slower" + than;
  return who + what + ", for " + std::to_string(change.steps) + " steps";
}

std::vector<PaceChange> StragglerWatch::on(const std::vector<Pace>& windows, TimePoint now) {
  for (const Pace& window : windows)
    if (window.steps > 0) take(window, now);
  if (ranks_.empty()) return {};
  if (uncompared_ * kMedianShare >= ranks_.size()) compare(now);
  std::vector<PaceChange> out;
  const auto add = [&](std::optional<PaceChange> change) {
    if (change) out.push_back(*change);
  };
  for (const Pace& window : windows)
    if (const auto rank = ranks_.find(window.rank); rank != ranks_.end() && window.steps > 0)
      for (std::size_t phase = 0; phase < kPhases; ++phase) add(judge(rank->second, phase, window));
  if (in_turn_ >= ranks_.size() && !windows.empty()) {
    in_turn_ = 0;
    for (std::size_t phase = 0; phase < kPhases; ++phase) add(judge_all(phase, windows.front().steps));
  }
  return out;
}

void StragglerWatch::take(const Pace& window, TimePoint now) {
  Rank& rank = ranks_[window.rank];
  const auto steps = static_cast<double>(window.steps);
  rank.per_step = {static_cast<double>(window.compute_us) / steps, static_cast<double>(window.load_us) / steps};
  const double all = static_cast<double>(window.compute_us) + static_cast<double>(window.load_us) +
                     static_cast<double>(window.wait_us);
  rank.step = all / steps;
  rank.at = now;
  rank.stale_at = now + kStaleAfter +
                  std::chrono::microseconds(static_cast<std::int64_t>(std::min(kStaleWindows * all, kLongestStep)));
  ++uncompared_;
  ++in_turn_;
}

void StragglerWatch::compare(TimePoint now) {
  uncompared_ = 0;
  std::erase_if(ranks_, [&](const auto& entry) {
    const auto& runs = entry.second.runs;
    const bool gone = entry.second.stale_at < now;
    if (gone) history_ = {};  // of other ranks
    if (gone) named_ -= static_cast<int>(std::count_if(runs.begin(), runs.end(), [](const Run& r) { return r.named; }));
    return gone;
  });
  std::vector<double> values;
  const auto middle = [&](const auto& value, bool upper) {
    values.clear();
    for (const auto& [number, rank] : ranks_) values.push_back(value(rank));
    return values.empty() ? 0 : middle_of(values, upper);
  };
  median_step_ = middle([](const Rank& rank) { return rank.step; }, false);
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    const double median = middle([&](const Rank& rank) { return rank.per_step[phase]; }, false);
    const auto distance = [&](const Rank& rank) { return std::abs(rank.per_step[phase] - median); };
    medians_[phase] = {median, middle(distance, true)};
  }
}

bool StragglerWatch::is_slow(const Rank& rank, std::size_t phase) const {
  const double own = rank.per_step[phase];
  const Median& median = medians_[phase];
  const bool two = ranks_.size() == 2;
  const double excess = own - median.middle;
  return ratio_of(own, median.middle) >= (two ? kClear : kSlow) && excess >= kShareMin * rank.step &&
         (two || excess >= kSpreadMin * median.spread);
}

// A rank without enough of a CPU is slow in all that it does, and is named once.
bool StragglerWatch::is_worse_elsewhere(const Rank& rank, std::size_t phase) const {
  const auto excess = [&](std::size_t of) { return rank.per_step[of] - medians_[of].middle; };
  const std::size_t other = 1 - phase;
  return rank.runs[other].named || (is_slow(rank, other) && excess(other) > excess(phase));
}

std::optional<PaceChange> StragglerWatch::judge(Rank& rank, std::size_t phase, const Pace& window) {
  Run& run = rank.runs[phase];
  if (!is_slow(rank, phase)) return end_run(run, phase, window);
  const auto steps = static_cast<double>(window.steps);
  run.windows_over = 0;
  run.windows = std::min(run.windows + 1, kWindows);
  run.steps += window.steps;
  run.own += rank.per_step[phase] * steps;
  run.median += medians_[phase].middle * steps;
  const double ratio = ratio_of(rank.per_step[phase], medians_[phase].middle);
  run.least = std::min(run.least.value_or(ratio), ratio);
  const bool two = ranks_.size() == 2;
  const int needed = run.least >= kClear && !two ? kClearWindows : kWindows;
  if (run.named || run.windows < needed || named_ >= kNamedMax || is_worse_elsewhere(rank, phase)) return {};
  run.named = true;
  ++named_;
  return PaceChange{PaceChange::Kind::straggler, window.rank, kPhaseNames[phase],
                    percent(ratio_of(run.own, run.median)), run.steps};
}

std::optional<PaceChange> StragglerWatch::end_run(Run& run, std::size_t phase, const Pace& window) {
  if (!run.named) return run = {}, std::nullopt;
  if (++run.windows_over < kWindowsOver) return {};
  --named_;
  const PaceChange over{PaceChange::Kind::over, window.rank, kPhaseNames[phase], percent(ratio_of(run.own, run.median)),
                        run.steps};
  run = {};
  return over;
}

// The median of the last three is compared, so that a stall of all is not news either.
std::optional<PaceChange> StragglerWatch::judge_all(std::size_t phase, std::uint64_t steps) {
  History& history = history_[phase];
  history.last.push_back(medians_[phase].middle);
  if (history.last.size() > kSmoothed) history.last.pop_front();
  if (history.last.size() < kSmoothed) return {};
  std::vector<double> values(history.last.begin(), history.last.end());
  const double current = middle_of(values, false);
  history.best = history.best == 0 ? current : std::min(history.best, current);
  const double ratio = ratio_of(current, history.best);
  const PaceChange::Kind kind = history.slower ? PaceChange::Kind::all_normal : PaceChange::Kind::all_slower;
  const bool changes =
      history.slower ? ratio < kNormal : ratio >= kSlow && current - history.best >= kShareMin * median_step_;
  history.steps = history.slower || changes ? history.steps + steps : 0;
  history.windows = changes ? history.windows + 1 : 0;
  if (history.windows < kWindows) return {};
  history.windows = 0;
  history.slower = !history.slower;
  return PaceChange{kind, -1, kPhaseNames[phase], percent(ratio), history.steps};
}

}  // namespace ddprun::rendezvous
