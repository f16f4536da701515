#include "trainer/loop/best_tracker.h"

#include <cmath>

namespace ddprun::train {

BestUpdate BestTracker::update(std::int64_t epoch, double value) {
  const bool first = state_.best_epoch == 0 && !std::isnan(value);
  const bool better = first || (higher_is_better_ ? value > state_.best : value < state_.best);
  if (better)
    state_ = {.best = value, .best_epoch = epoch};
  else
    ++state_.worse_in_a_row;
  return {.better = better, .stop = has_stopped()};
}

}  // namespace ddprun::train
