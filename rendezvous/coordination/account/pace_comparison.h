// Compares what ranks take for a step by themselves: with each other, and with what they took before.
//
// A value. In DDP every step takes all ranks the same time, as they wait for the slowest. So what counts is how long a
// rank computes or loads per step itself, against the median of all ranks. A window is slow if
//  - the rank takes kSlow times the median or more,
//  - what is above the median is a tenth of the step or more: microseconds of loading delay nobody,
//  - and it is four times as far from the median as the middle rank is (the median of the distances): where all ranks
//    differ, or half of them are slow, none is slow.
//
// Of two ranks one cannot know from their difference which is the unusual one. The slower one's own time before says
// it: if it took less, it is compared with the other one. Else, or as long as nothing is known, it is slow only if it
// takes kTwoRanks times as much as that. A moment in which the other one is faster than usual does not count.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "rendezvous/base/time.h"

namespace ddprun::rendezvous {

// Of one worker in one window: its steps, and the time that they took, in total.
struct Pace {
  int rank = 0;
  std::uint64_t steps = 0;
  std::uint64_t load_us = 0, compute_us = 0, wait_us = 0;

  friend bool operator==(const Pace&, const Pace&) = default;
};
// In microseconds.
double total_time(const Pace& window);
// `own` to `other`, at most 100: what is compared with nothing is compared with a microsecond.
double time_ratio(double own, double other);

// The last windows of a rank that were not slow, without its first one: all ranks may take long for a first step.
class UsualTime {
 public:
  static constexpr std::size_t kWindows = 16, kKnown = 3;
  void add(double microseconds);
  // Empty before kKnown windows that count.
  std::optional<double> value() const;
  std::optional<double> longest() const;

 private:
  std::array<float, kWindows> last_ = {};
  std::size_t count_ = 0;
};

class PaceComparison {
 public:
  static constexpr double kSlow = 1.25, kShareMin = 0.1, kSpreadMin = 4, kTwoRanks = 1.2;
  static constexpr std::size_t kPhases = 2;  // compute, load

  // A rank's last window. Times are per step, in microseconds.
  struct Result {
    double own = 0, median = 0;
    double ratio = 1;  // by which it is judged
    double excess = 0;
    bool slow = false;
  };

  // A rank's new window; one without steps is no window.
  void add(const Pace& window);
  // Whether so many windows are new that the medians have to be taken again: a quarter of the ranks.
  bool is_due() const;
  void take_medians();
  void forget(int rank) { ranks_.erase(rank); }

  // Of a rank with a window.
  Result compare(int rank, std::size_t phase) const;
  // Whether its last window was kSlow times as long as the longest that is usual for it, and as far above that as that
  // is above their median: the work of some ranks varies much. True as long as nothing is known.
  bool is_unusual(int rank, std::size_t phase) const;
  // Its last window was not slow.
  void add_to_usual(int rank, std::size_t phase);
  std::optional<double> usual(int rank, std::size_t phase) const { return ranks_.at(rank).usual[phase].value(); }

  double median(std::size_t phase) const { return medians_[phase].middle; }
  double median_step() const { return median_step_; }
  std::size_t ranks() const { return ranks_.size(); }

 private:
  struct Rank {
    std::array<double, kPhases> per_step = {};
    double step = 0;
    std::array<UsualTime, kPhases> usual = {};
  };
  struct Median {
    double middle = 0, spread = 0;
  };
  double reference_of_two(int rank, std::size_t phase) const;

  std::map<int, Rank> ranks_;
  std::array<Median, kPhases> medians_ = {};
  double median_step_ = 0;
  std::size_t new_windows_ = 0;  // since the medians were taken
};

}  // namespace ddprun::rendezvous
