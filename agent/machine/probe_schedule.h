// Decides when the command of --preemption-probe runs and what its end means. A value.
//
// Tell it the time at next() and at every end of the command; it says what to do then. At most one runs at a time.
#pragma once
#include <optional>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

struct ProbeLimits {
  Duration every = std::chrono::seconds(5);     // from the start of one run to that of the next
  Duration run_max = std::chrono::seconds(10);  // then it is killed, and the next run begins
};

enum class ProbeTask { none, start, kill };

enum class ProbeAnswer {
  none,        // nothing new
  preempted,   // exit code 0
  cannot_run,  // the shell finds no such program, or may not run it; said once
  too_slow,    // killed at the limit; said once
};

class ProbeSchedule {
 public:
  // The first run is due at `now`.
  explicit ProbeSchedule(TimePoint now, ProbeLimits limits = {}) : limits_(limits), next_(now) {}

  TimePoint next() const { return next_; }
  ProbeTask due(TimePoint now);
  // `status`: empty if it is unknown, as the command was ended with a round's leftovers.
  ProbeAnswer ended(const std::optional<rendezvous::ExitStatus>& status, TimePoint now);

 private:
  ProbeLimits limits_;
  TimePoint next_;
  std::optional<TimePoint> started_;  // of the run in progress
  bool killed_ = false;
  bool said_cannot_run_ = false, said_too_slow_ = false;
};

}  // namespace ddprun::agent
