#include "rendezvous/coordination/account/job_clock.h"

#include <algorithm>

namespace ddprun::rendezvous {

void JobClock::round_formed(int round, TimePoint now) {
  round_ended(RoundEnd::well, now);
  closed_ = closed(now);
  closed_until_ = now;
  round_ = OpenRound{.number = round, .formed = now};
  ++changes_;
}

void JobClock::workers_run(TimePoint now) {
  if (round_ && !round_->running) round_->running = now;
}

void JobClock::measured(int round, int group_rank, const RoundSpent& spent) {
  if (!round_ || round_->number != round || group_rank > round_->teller) return;
  round_->teller = group_rank;
  round_->spent = spent;
  if (round_->ended) ++changes_;
}

void JobClock::round_ended(RoundEnd how, TimePoint now) {
  if (!round_ || round_->ended) return;
  round_->ended = now;
  round_->how = how;
}

void JobClock::all_stopped(TimePoint now) {
  if (round_ && round_->ended && !round_->stopped) round_->stopped = now;
}

JobAccount JobClock::closed(TimePoint now) const {
  JobAccount out = closed_;
  if (!round_) {
    out.spent[TimeKind::waiting] += now - closed_until_;
  } else if (round_->ended) {
    const TimePoint stopped = round_->stopped.value_or(now);
    out.add_round(spent_of(*round_, *round_->ended), *round_->ended - round_->formed, round_->how);
    out.spent[TimeKind::stop] += stopped - *round_->ended;
    out.spent[TimeKind::waiting] += now - stopped;
  }
  return out;
}

TimeAccount JobClock::account(TimePoint now, const std::optional<RoundSpent>& running) const {
  const auto since = round_since();
  if (!since) return closed(now).spent;
  return so_far(closed_, running ? *running : spent_of(*round_, now), now - *since);
}

std::optional<TimePoint> JobClock::round_since() const {
  return round_ && !round_->ended ? std::optional(round_->formed) : std::nullopt;
}

// Where nobody has told anything the workers count as productive as long as all have run.
RoundSpent JobClock::spent_of(const OpenRound& round, TimePoint until) {
  if (round.spent) return *round.spent;
  RoundSpent out{.start = std::min(round.running.value_or(until), until) - round.formed};
  if (!round.running) return out;
  out.train = until - *round.running;
  out.doing = TimeKind::productive;
  return out;
}

}  // namespace ddprun::rendezvous
