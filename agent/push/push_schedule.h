// When something is pushed: at an interval; after failures later and later, or when the receiver wants it. Pure.
//
// Nothing is queued: every push has the values of its moment, and what was not taken is dropped.
#pragma once
#include <algorithm>
#include <optional>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

class PushSchedule {
 public:
  static constexpr std::chrono::minutes kPauseMax{10};

  PushSchedule(Duration interval, TimePoint now) : interval_(interval), next_(now + interval) {}

  TimePoint next() const { return next_; }
  void taken(TimePoint now) {
    failures_ = 0;
    next_ = std::max(next_ + interval_, now);
    if (next_ == now) next_ += interval_;  // pushes that were missed are left out
  }
  void failed(TimePoint now, std::optional<Duration> retry_after) {
    Duration pause = interval_;
    for (int i = 0; i < failures_ && pause < kPauseMax; ++i) pause *= 2;
    pause = std::max<Duration>(interval_, std::min<Duration>(pause, kPauseMax));
    ++failures_;
    next_ = now + std::max(pause, retry_after.value_or(Duration::zero()));
  }
  bool is_failing() const { return failures_ > 0; }

 private:
  const Duration interval_;
  TimePoint next_;
  int failures_ = 0;
};

}  // namespace ddprun::agent
