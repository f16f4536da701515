// Which share of the last minute each rank has loaded data, computed and waited, from the answers that have come. Pure.
#pragma once
#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "launcher/view/styled_line.h"

namespace ddprun::launcher {

struct TimeShare {  // each from 0 to 1; together 1
  double load = 0, compute = 0, wait = 0;
};

class TimeShares {
 public:
  // `ranks`: an answer's; `seconds`: on any clock that does not go back. Ranks that are not there are forgotten.
  void take(const nlohmann::json& ranks, double seconds);
  // While a rank reports nothing new, the last one that is known. With the first answer: of the round so far.
  std::optional<TimeShare> of(int rank) const;

 private:
  struct Times {  // since the round began
    double load = 0, compute = 0, wait = 0, at = 0;
  };
  struct Rank {
    std::deque<Times> window = {};
    std::optional<TimeShare> share = {};
  };
  static void take(Rank& rank, const Times& now);

  std::map<int, Rank> ranks_ = {};
};

// "LLLCCCCCCCCCCWWWWWWW": so many cells; what took 1 % or more has one of them.
StyledLine share_bar(const TimeShare& share, int cells);

}  // namespace ddprun::launcher
