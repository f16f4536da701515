// Tracks the best evaluation and decides on early stopping. A value.
#pragma once
#include <cstdint>

namespace ddprun::train {

struct Verdict {
  bool better = false;  // than all before
  bool stop = false;
};

struct JudgeState {
  double best = 0;
  std::int64_t best_epoch = 0;  // 0: no evaluation yet
  std::int64_t worse_in_a_row = 0;
};

class Judge {
 public:
  // `patience`: this many evaluations in a row without a new best end the run; 0: never.
  Judge(bool higher_is_better, std::int64_t patience) : higher_is_better_(higher_is_better), patience_(patience) {}

  // NaN is never better.
  Verdict judge(std::int64_t epoch, double value);
  bool has_stopped() const { return patience_ > 0 && state_.worse_in_a_row >= patience_; }

  const JudgeState& state() const { return state_; }
  void resume(const JudgeState& state) { state_ = state; }

 private:
  bool higher_is_better_;
  std::int64_t patience_;
  JudgeState state_ = {};
};

}  // namespace ddprun::train
