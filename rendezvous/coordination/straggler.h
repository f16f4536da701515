// Which ranks of a round make the others wait, by what a step takes them.
//
// A value. In DDP every step takes all ranks the same time, as they wait for the slowest. So what counts is how long a
// rank computes or loads per step itself, against the median of all ranks.
//
// A window is what a worker did between two messages of its node: ten steps and two seconds at least. It is slow if
//  - the rank takes kSlow times the median or more,
//  - what is above the median is a tenth of the step or more: microseconds of loading delay nobody,
//  - and it is four times as far from the median as the middle rank is (the median of the distances): where all ranks
//    differ, or half of them are slow, nobody is a straggler.
// A rank is named after five slow windows in a row, or four if it takes kClear times the median: one stall is in two
// windows at most. It is over after three windows that are not slow. Of two ranks one cannot know which is the unusual
// one: the slower is named, but only if it takes kClear times as long as the other. A rank that is slow in both phases
// is named for the one in which it loses more.
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
#include "rendezvous/coordination/standing.h"

namespace ddprun::rendezvous {

// Of one worker in one window: its steps, and the time that they took, in total.
struct Pace {
  int rank = 0;
  std::uint64_t steps = 0;
  std::uint64_t load_us = 0, compute_us = 0, wait_us = 0;

  friend bool operator==(const Pace&, const Pace&) = default;
};

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

  friend bool operator==(const PaceChange&, const PaceChange&) = default;
};

// What is done about them.
enum class StragglerPolicy { say, off, replace, dry_run };

// "rank 5 (node7) computes 1.6x slower than the median, for 40 steps"
std::string in_words(const PaceChange& change, const std::string& host);

class StragglerWatch {
 public:
  static constexpr double kSlow = 1.25, kClear = 1.5, kShareMin = 0.1, kSpreadMin = 4;
  static constexpr int kWindows = 5, kClearWindows = 4, kWindowsOver = 3;
  static constexpr int kNamedMax = 16;  // at the same time

  // Windows of one node's ranks. Ranks that are not heard of for three of their windows and ten seconds are not
  // compared any more.
  std::vector<PaceChange> on(const std::vector<Pace>& windows, TimePoint now);

 private:
  static constexpr std::size_t kPhases = 2;  // compute, load
  struct Run {                               // of slow windows in a row
    int windows = 0, windows_over = 0;
    std::uint64_t steps = 0;
    double own = 0, median = 0;        // time in all steps, to compare
    std::optional<double> least = {};  // ratio of a window
    bool named = false;
  };
  struct Rank {
    std::array<double, kPhases> per_step = {};  // microseconds
    double step = 0;
    TimePoint at, stale_at;
    std::array<Run, kPhases> runs = {};
  };
  struct Median {
    double middle = 0, spread = 0;
  };
  struct History {
    std::deque<double> last = {};
    double best = 0;
    int windows = 0;
    std::uint64_t steps = 0;
    bool slower = false;
  };

  void take(const Pace& window, TimePoint now);
  void compare(TimePoint now);
  bool is_slow(const Rank& rank, std::size_t phase) const;
  bool is_worse_elsewhere(const Rank& rank, std::size_t phase) const;
  std::optional<PaceChange> judge(Rank& rank, std::size_t phase, const Pace& window);
  std::optional<PaceChange> end_run(Run& run, std::size_t phase, const Pace& window);
  std::optional<PaceChange> judge_all(std::size_t phase, std::uint64_t steps);

  std::map<int, Rank> ranks_;
  std::array<Median, kPhases> medians_ = {};
  double median_step_ = 0;
  std::array<History, kPhases> history_ = {};
  std::size_t uncompared_ = 0;  // windows since the medians were taken
  std::size_t in_turn_ = 0;     // windows since the medians went into the history
  int named_ = 0;
};

}  // namespace ddprun::rendezvous
