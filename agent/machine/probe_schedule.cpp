#include "agent/machine/probe_schedule.h"

#include <algorithm>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr int kNotExecutable = 126, kNotFound = 127;  // of a shell

}  // namespace

ProbeTask ProbeSchedule::due(TimePoint now) {
  if (now < next_) return ProbeTask::none;
  if (started_) {
    next_ = TimePoint::max();
    return std::exchange(killed_, true) ? ProbeTask::none : ProbeTask::kill;
  }
  started_ = now;
  killed_ = false;
  next_ = now + limits_.run_max;
  return ProbeTask::start;
}

ProbeAnswer ProbeSchedule::ended(const std::optional<rendezvous::ExitStatus>& status, TimePoint now) {
  if (!started_) return ProbeAnswer::none;
  next_ = std::max(*started_ + limits_.every, now);
  started_.reset();
  if (status && status->ok()) return ProbeAnswer::preempted;
  if (killed_) return std::exchange(said_too_slow_, true) ? ProbeAnswer::none : ProbeAnswer::too_slow;
  const bool cannot_run =
      status && (status->start_error != 0 || status->code == kNotExecutable || status->code == kNotFound);
  if (!cannot_run || std::exchange(said_cannot_run_, true)) return ProbeAnswer::none;
  return ProbeAnswer::cannot_run;
}

}  // namespace ddprun::agent
