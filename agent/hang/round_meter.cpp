#include "agent/hang/round_meter.h"

#include <algorithm>

namespace ddprun::agent {
namespace {

using rendezvous::RoundSpent;
using rendezvous::TimeKind;

bool is_work(ddprun_phase phase) { return phase == DDPRUN_PHASE_TRAINING || phase == DDPRUN_PHASE_EVALUATING; }

TimeKind kind_of(ddprun_phase phase) {
  switch (phase) {
    case DDPRUN_PHASE_LOADING:
    case DDPRUN_PHASE_JOINING:
      return TimeKind::restore;
    case DDPRUN_PHASE_SAVING:
      return TimeKind::save;
    case DDPRUN_PHASE_FINISHING:
      return TimeKind::stop;
    case DDPRUN_PHASE_UNKNOWN:
    case DDPRUN_PHASE_TRAINING:
    case DDPRUN_PHASE_EVALUATING:
      break;
  }
  return TimeKind::productive;
}

}  // namespace

void RoundMeter::begin(TimePoint now) {
  *this = {};
  began_ = now;
}

void RoundMeter::started(TimePoint now) { started_ = now; }

void RoundMeter::look(const Progress& progress, TimePoint now) {
  last_ = progress;
  if (progress.times)
    times_ = progress.times;
  else if (progress.at)
    sample(now);
}

void RoundMeter::sample(TimePoint now) {
  const TimePoint since = last_.phase_at.value_or(*last_.at);
  if (!times_) times_ = PhaseTimes{.attached = started_.value_or(now), .since = since};
  if (times_->work && since > times_->since) times_->spent[times_->phase] += since - times_->since;
  if (!times_->work && is_work(last_.phase)) times_->work = since;
  times_->phase = last_.phase;
  times_->since = since;
}

TimePoint RoundMeter::attached(TimePoint now) const {
  return std::clamp(times_ ? times_->attached : started_.value_or(now), began_, std::max(began_, now));
}

// Of a program without phases the first step shows it, and the mean time of the others.
std::optional<TimePoint> RoundMeter::work(TimePoint now) const {
  const TimePoint from = attached(now);
  if (times_ && times_->work) return std::max(from, *times_->work);
  if (last_.phase != DDPRUN_PHASE_UNKNOWN) return {};
  if (last_.steps_done == 0 || !last_.first_step_at) return from;
  const Duration others = *last_.step_at - *last_.first_step_at;
  const Duration mean =
      last_.steps_done > 1
          ? others / static_cast<std::int64_t>(std::min<std::uint64_t>(last_.steps_done - 1, INT64_MAX))
          : Duration::zero();
  return std::max(from, *last_.first_step_at - std::max(mean, Duration::zero()));
}

Duration RoundMeter::in_phase(ddprun_phase phase, TimePoint now) const {
  if (!times_ || !times_->work) return {};
  const Duration current = times_->phase == phase ? now - std::max(times_->since, *times_->work) : Duration::zero();
  return times_->spent[phase] + std::max(current, Duration::zero());
}

RoundSpent RoundMeter::spent(TimePoint now) const {
  RoundSpent out{.reports = last_.at.has_value()};
  const TimePoint from = attached(now);
  out.start = from - began_;
  if (!started_) return out;
  const std::optional<TimePoint> work_began = work(now);
  if (!work_began) {
    out.restore = now - from;
    out.doing = TimeKind::restore;
  } else {
    out.restore = *work_began - from + in_phase(DDPRUN_PHASE_LOADING, now) + in_phase(DDPRUN_PHASE_JOINING, now);
    out.save = in_phase(DDPRUN_PHASE_SAVING, now);
    out.evaluate = in_phase(DDPRUN_PHASE_EVALUATING, now);
    const Duration others = out.start + out.restore + out.save + out.evaluate + in_phase(DDPRUN_PHASE_FINISHING, now);
    out.train = std::max(now - began_ - others, Duration::zero());
    out.doing = kind_of(last_.phase);
  }
  if (out.reports) add_steps(out, now);
  return out;
}

void RoundMeter::add_steps(RoundSpent& out, TimePoint now) const {
  out.since_progress = std::max(now - *last_.at, Duration::zero());
  out.steps = last_.steps_done;
  out.first_step = last_.first_step;
  out.last_step = last_.step;
  out.snapshot_step = last_.snapshot_step;
  const bool trains = last_.phase == DDPRUN_PHASE_TRAINING || last_.phase == DDPRUN_PHASE_UNKNOWN;
  const std::optional<TimePoint> work_began = work(now);
  if (!trains || !work_began) return;
  const TimePoint since = std::max({last_.step_at.value_or(*work_began), *work_began, times_ ? times_->since : began_});
  out.unfinished = std::clamp(now - since, Duration::zero(), out.train);
}

Duration measured(const RoundSpent& spent) {
  return spent.start + spent.restore + spent.train + spent.evaluate + spent.save;
}

}  // namespace ddprun::agent
