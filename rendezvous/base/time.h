// The clock of all decisions: monotonic, and always passed in, never read.
#pragma once
#include <chrono>

namespace ddprun {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

constexpr TimePoint kNever = TimePoint::max();  // a deadline that does not pass

}  // namespace ddprun
