#include "agent/status/job_measures.h"

namespace ddprun::agent {
namespace {

double seconds_in(Duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void JobMeasures::waits_for_round(TimePoint now) {
  if (!waits_since_) waits_since_ = now;
}

void JobMeasures::round_ended(const std::string& cause, TimePoint now) { recovery_ = {cause, now}; }

void JobMeasures::workers_run(TimePoint now) {
  if (waits_since_) round_form_.add(seconds_in(now - *waits_since_));
  if (recovery_)
    recoveries_.try_emplace(recovery_->cause, kRoundBounds).first->second.add(seconds_in(now - recovery_->since));
  waits_since_.reset();
  recovery_.reset();
  steps_seen_ = 0;
  in_steps_seen_ = {};
}

// Several steps between two looks count with their mean.
void JobMeasures::steps_done(std::uint64_t steps, Duration in_steps) {
  if (steps <= steps_seen_ || in_steps < in_steps_seen_) return;
  const std::uint64_t more = steps - steps_seen_;
  steps_.add(seconds_in(in_steps - in_steps_seen_) / static_cast<double>(more), more);
  steps_seen_ = steps;
  in_steps_seen_ = in_steps;
}

std::uint64_t JobMeasures::failures(rendezvous::FailureClass kind) const {
  const auto found = failures_.find(kind);
  return found == failures_.end() ? 0 : found->second;
}

}  // namespace ddprun::agent
