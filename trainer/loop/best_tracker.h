// Tracks the best evaluation and decides on early stopping. A value.
#pragma once
#include <cstdint>

namespace ddprun::train {

struct BestUpdate {
  bool better = false;  // than all before
  bool stop = false;
};

struct BestState {
  double best = 0;
  std::int64_t best_epoch = 0;  // 0: no evaluation yet
  std::int64_t worse_in_a_row = 0;
};

class BestTracker {
 public:
  // `patience`: this many evaluations in a row without a new best end the run; 0: never.
  BestTracker(bool higher_is_better, std::int64_t patience)
      : higher_is_better_(higher_is_better), patience_(patience) {}

  // NaN is never better.
  BestUpdate update(std::int64_t epoch, double value);
  bool has_stopped() const { return patience_ > 0 && state_.worse_in_a_row >= patience_; }

  const BestState& state() const { return state_; }
  void resume(const BestState& state) { state_ = state; }

 private:
  bool higher_is_better_;
  std::int64_t patience_;
  BestState state_ = {};
};

}  // namespace ddprun::train
