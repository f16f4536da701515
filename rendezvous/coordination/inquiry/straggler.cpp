#include "rendezvous/coordination/inquiry/straggler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ddprun::rendezvous {
namespace {

constexpr std::array<Activity, 2> kPhaseNames = {Activity::compute, Activity::load};
constexpr std::chrono::seconds kStaleAfter{10};
constexpr int kStaleWindows = 3;
constexpr double kLongestWindow = 1e12;  // microseconds
constexpr double kAlike = 1.5;           // the slowest window to the fastest one
constexpr std::size_t kSmoothed = 3;     // windows of all ranks
constexpr double kNormal = 1.1;          // to the best: no longer slower

double middle_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int percent(double ratio) { return static_cast<int>(std::lround(100 * ratio)); }

std::string times(int percent) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1fx", percent / 100.0);
  return out;
}

}  // namespace

std::string in_words(const PaceChange& change, const std::string& host) {
  const bool all = change.kind == PaceChange::Kind::all_slower || change.kind == PaceChange::Kind::all_normal;
  const bool loads = change.phase == Activity::load;
  const std::string who =
      all ? "the ranks" : "rank " + std::to_string(change.rank) + (host.empty() ? "" : " (" + host + ")");
  const std::string does = std::string(loads ? " wait" : " compute") + (all ? " " : "s ");
  const std::string more = loads ? " longer for data than " : " slower than ";
  std::string out = who + does + times(change.percent) + more + (all ? "before" : "the median") + ", for " +
                    std::to_string(change.steps) + " steps";
  if (change.before_percent >= percent(PaceComparison::kSlow))
    out += ", and " + times(change.before_percent) + (loads ? " longer" : " slower") + " than before";
  return out;
}

void StragglerWatch::Streak::add(const Result& result, std::uint64_t steps_of_window) {
  ++windows;
  steps += steps_of_window;
  own += result.own * static_cast<double>(steps_of_window);
  median += result.median * static_cast<double>(steps_of_window);
}

std::vector<PaceChange> StragglerWatch::on(const std::vector<Pace>& windows, TimePoint now, bool needs_long) {
  std::vector<Pace> long_windows;
  for (const Pace& window : windows)
    if (window.steps > 0) take(window, now, long_windows);
  if (short_.is_due()) {
    forget_silent(now);
    short_.take_medians();
  }
  if (long_.is_due()) long_.take_medians();
  std::vector<PaceChange> out;
  const auto add = [&](std::optional<PaceChange> change) {
    if (change) out.push_back(*change);
  };
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    for (const Pace& window : windows)
      if (window.steps > 0) add(judge_short(phase, window, needs_long));
    for (const Pace& window : long_windows) add(judge_long(phase, window));
  }
  if (!long_windows.empty() && in_turn_ >= long_.ranks()) {
    in_turn_ = 0;
    for (std::size_t phase = 0; phase < kPhases; ++phase) add(judge_all(phase, long_windows.front().steps));
  }
  return out;
}

void StragglerWatch::take(const Pace& window, TimePoint now, std::vector<Pace>& long_windows) {
  Rank& rank = ranks_[window.rank];
  const double time = std::min(kStaleWindows * total_time(window), kLongestWindow);
  rank.stale_at = now + kStaleAfter + std::chrono::microseconds(static_cast<std::int64_t>(time));
  short_.add(window);
  Pace& sum = rank.collected;
  sum = {window.rank, sum.steps + window.steps, sum.load_us + window.load_us, sum.compute_us + window.compute_us,
         sum.wait_us + window.wait_us};
  if (sum.steps < kLongSteps || total_time(sum) < static_cast<double>(std::chrono::microseconds(kLongTime).count()))
    return;
  long_.add(sum);
  ++in_turn_;
  long_windows.push_back(sum);
  sum = {};
}

void StragglerWatch::forget_silent(TimePoint now) {
  std::erase_if(ranks_, [&](const auto& entry) {
    const auto& [number, rank] = entry;
    if (rank.stale_at >= now) return false;
    history_ = {};  // of other ranks
    named_ -= static_cast<int>(std::count_if(rank.phases.begin(), rank.phases.end(),
                                             [](const Phase& phase) { return phase.named.has_value(); }));
    short_.forget(number);
    long_.forget(number);
    return true;
  });
}

// A burst of work is at the edge of some window: what lasts is in all of them alike, in itself or beside the median.
bool StragglerWatch::suffice(const LastWindows& last) {
  std::uint64_t steps = 0;
  for (const ShortWindow& window : last) {
    if (!window.early) return false;
    steps += window.steps;
  }
  const auto are_alike = [&](double Result::*value) {
    const auto less = [&](const ShortWindow& a, const ShortWindow& b) { return a.result.*value < b.result.*value; };
    const auto [least, most] = std::minmax_element(last.begin(), last.end(), less);
    return most->result.*value <= kAlike * least->result.*value;
  };
  return steps <= kEarlyStepsMax && (are_alike(&Result::own) || are_alike(&Result::ratio));
}

// A rank without enough of a CPU is slow in all that it does, and is named once.
bool StragglerWatch::is_worse_elsewhere(const PaceComparison& by, int rank, std::size_t phase) const {
  const std::size_t other = 1 - phase;
  const Result there = by.compare(rank, other);
  return ranks_.at(rank).phases[other].named || (there.slow && there.excess > by.compare(rank, phase).excess);
}

std::optional<PaceChange> StragglerWatch::judge_short(std::size_t phase, const Pace& window, bool needs_long) {
  Phase& of = ranks_.at(window.rank).phases[phase];
  const Result result = short_.compare(window.rank, phase);
  std::rotate(of.last.begin(), of.last.begin() + 1, of.last.end());
  of.last.back() = {result, window.steps,
                    result.slow && result.ratio >= kEarly && short_.is_unusual(window.rank, phase)};
  if (!result.slow) return short_.add_to_usual(window.rank, phase), std::nullopt;
  if (of.named) of.named->add(result, window.steps);
  if (of.named || needs_long || !suffice(of.last)) return {};
  Streak streak;
  for (const ShortWindow& one : of.last) streak.add(one.result, one.steps);
  return name(short_, window.rank, phase, streak);
}

std::optional<PaceChange> StragglerWatch::judge_long(std::size_t phase, const Pace& window) {
  Phase& of = ranks_.at(window.rank).phases[phase];
  const Result result = long_.compare(window.rank, phase);
  if (!result.slow) {
    of.in_long = of.clear_in_long = {};
    long_.add_to_usual(window.rank, phase);
    return of.named && ++of.windows_over >= kWindowsOver ? end(window.rank, phase) : std::nullopt;
  }
  of.windows_over = 0;
  of.in_long.add(result, window.steps);
  if (result.ratio >= kClear) of.clear_in_long.add(result, window.steps);
  if (of.named || (of.in_long.windows < kWindows && of.clear_in_long.windows < kClearWindows)) return {};
  return name(long_, window.rank, phase, of.in_long);
}

std::optional<PaceChange> StragglerWatch::name(const PaceComparison& by, int rank, std::size_t phase,
                                               const Streak& streak) {
  if (named_ >= kNamedMax || is_worse_elsewhere(by, rank, phase)) return {};
  ++named_;
  ranks_.at(rank).phases[phase].named = streak;
  const std::optional<double> before = by.usual(rank, phase);
  return PaceChange{PaceChange::Kind::straggler,
                    rank,
                    kPhaseNames[phase],
                    percent(time_ratio(streak.own, streak.median)),
                    streak.steps,
                    before ? percent(time_ratio(streak.own / static_cast<double>(streak.steps), *before)) : 0};
}

std::vector<SlowRank> StragglerWatch::named() const {
  std::vector<SlowRank> out;
  if (named_ == 0) return out;
  for (const auto& [rank, state] : ranks_)
    for (std::size_t phase = 0; phase < kPhases; ++phase)
      if (const auto& named = state.phases[phase].named)
        out.push_back({rank, kPhaseNames[phase], percent(time_ratio(named->own, named->median))});
  return out;
}

std::optional<PaceChange> StragglerWatch::end(int rank, std::size_t phase) {
  --named_;
  Phase& of = ranks_.at(rank).phases[phase];
  const Streak all = *of.named;
  of = {};
  return PaceChange{PaceChange::Kind::over, rank, kPhaseNames[phase], percent(time_ratio(all.own, all.median)),
                    all.steps};
}

// The median of the last three is compared, so that a stall of all is not news either.
std::optional<PaceChange> StragglerWatch::judge_all(std::size_t phase, std::uint64_t steps) {
  History& history = history_[phase];
  history.last.push_back(long_.median(phase));
  if (history.last.size() > kSmoothed) history.last.pop_front();
  if (history.last.size() < kSmoothed) return {};
  std::vector<double> values(history.last.begin(), history.last.end());
  const double current = middle_of(values);
  history.best = history.best == 0 ? current : std::min(history.best, current);
  const double ratio = time_ratio(current, history.best);
  const PaceChange::Kind kind = history.slower ? PaceChange::Kind::all_normal : PaceChange::Kind::all_slower;
  const bool changes =
      history.slower ? ratio < kNormal
                     : ratio >= kSlow && current - history.best >= PaceComparison::kShareMin * long_.median_step();
  history.steps = history.slower || changes ? history.steps + steps : 0;
  history.windows = changes ? history.windows + 1 : 0;
  if (history.windows < kWindows) return {};
  history.windows = 0;
  history.slower = !history.slower;
  return PaceChange{kind, -1, kPhaseNames[phase], percent(ratio), history.steps};
}

}  // namespace ddprun::rendezvous
