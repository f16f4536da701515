// Which ranks of a round make the others wait, by what a step takes them (pace_comparison.h).
//
// A value. Nodes send windows of five steps and 0.6 s at least (pace_meter.h). A rank is named after
//  - three windows in a row in which it takes kEarly times the median and longer than usual, if these are 20 steps at
//    most and about equally slow: steps are long, so 15 of them are evidence, and one stall is in two windows at most;
//  - else four long windows in a row, of ten steps and two seconds at least, with kClear times the median, or five with
//    kSlow times. A machine that is busy for some seconds is none.
// It is over after three long windows that are not slow. A rank that is slow in both phases is named for the one in
// which it loses more.
//
// If the medians grow, all ranks became slower: they are compared with the best that the round has had.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/pace_comparison.h"
#include "rendezvous/coordination/account/standing.h"
#include "rendezvous/coordination/inquiry/job_view.h"

namespace ddprun::rendezvous {

struct PaceChange {
  enum class Kind {
    straggler,   // from now on
    over,        // it is none any more
    all_slower,  // than the best of the round; no rank
    all_normal,  // that is over
  };
  Kind kind = Kind::straggler;
  int rank = -1;
  Activity phase = Activity::compute;  // or load
  int percent = 100;                   // of the median, or of the best; at most 100 times that
  std::uint64_t steps = 0;             // so far
  int before_percent = 0;              // of the rank's own time per step before; 0: it is not known

  friend bool operator==(const PaceChange&, const PaceChange&) = default;
};

// "rank 5 (node7) computes 1.6x slower than the median, for 40 steps, and 1.6x slower than before"
std::string in_words(const PaceChange& change, const std::string& host);

class StragglerWatch {
 public:
  static constexpr double kSlow = PaceComparison::kSlow, kClear = 1.5, kEarly = 1.9;
  static constexpr int kWindows = 5, kClearWindows = 4, kWindowsOver = 3;  // long ones
  static constexpr std::size_t kEarlyWindows = 3;
  static constexpr std::uint64_t kEarlyStepsMax = 20, kLongSteps = 10;
  static constexpr std::chrono::seconds kLongTime{2};
  static constexpr int kNamedMax = 16;  // at the same time

  // Windows of one node's ranks. Ranks that are not heard of for three of their windows and ten seconds are not
  // compared any more. `needs_long`: what follows is more than a line, so only long windows name a rank.
  std::vector<PaceChange> on(const std::vector<Pace>& windows, TimePoint now, bool needs_long = false);
  // Those that were named and are not over, by rank.
  std::vector<SlowRank> named() const;

 private:
  static constexpr std::size_t kPhases = PaceComparison::kPhases;
  using Result = PaceComparison::Result;

  struct Streak {  // of slow windows in a row
    int windows = 0;
    std::uint64_t steps = 0;
    double own = 0, median = 0;  // time in all steps

    void add(const Result& result, std::uint64_t steps_of_window);
  };
  struct ShortWindow {
    Result result = {};
    std::uint64_t steps = 0;
    bool early = false;  // slow enough
  };
  using LastWindows = std::array<ShortWindow, kEarlyWindows>;
  struct Phase {
    LastWindows last = {};
    Streak in_long, clear_in_long;
    std::optional<Streak> named = {};
    int windows_over = 0;
  };
  struct Rank {
    Pace collected;  // of the next long window
    TimePoint stale_at;
    std::array<Phase, kPhases> phases = {};
  };
  struct History {
    std::deque<double> last = {};
    double best = 0;
    int windows = 0;
    std::uint64_t steps = 0;
    bool slower = false;
  };

  void take(const Pace& window, TimePoint now, std::vector<Pace>& long_windows);
  void forget_silent(TimePoint now);
  static bool suffice(const LastWindows& last);
  bool is_worse_elsewhere(const PaceComparison& by, int rank, std::size_t phase) const;
  std::optional<PaceChange> judge_short(std::size_t phase, const Pace& window, bool needs_long);
  std::optional<PaceChange> judge_long(std::size_t phase, const Pace& window);
  std::optional<PaceChange> name(const PaceComparison& by, int rank, std::size_t phase, const Streak& streak);
  std::optional<PaceChange> end(int rank, std::size_t phase);
  std::optional<PaceChange> judge_all(std::size_t phase, std::uint64_t steps);

  std::map<int, Rank> ranks_;
  PaceComparison short_, long_;
  std::array<History, kPhases> history_ = {};
  std::size_t in_turn_ = 0;  // long windows since the medians went into the history
  int named_ = 0;
};

}  // namespace ddprun::rendezvous
