#include "rendezvous/coordination/account/time_account.h"

#include <algorithm>
#include <numeric>

#include "rendezvous/coordination/account/round_spent.h"

namespace ddprun::rendezvous {
namespace {

// No more than is left of the round.
void take(TimeAccount& account, TimeKind kind, Duration spent, Duration& left) {
  const Duration part = std::clamp(spent, Duration::zero(), left);
  account[kind] += part;
  left -= part;
}

void take_hang(TimeAccount& account, const RoundSpent& spent) {
  Duration left = spent.since_progress;
  for (const TimeKind from : {spent.doing, TimeKind::productive, TimeKind::save, TimeKind::restore, TimeKind::start})
    if (from != TimeKind::stop) left -= account.move(from, TimeKind::hang, left);
}

}  // namespace

const char* name_of(TimeKind kind) { return kTimeKinds[static_cast<std::size_t>(kind)].name; }

TimeAccount& TimeAccount::operator+=(const TimeAccount& other) {
  for (std::size_t i = 0; i < spent_.size(); ++i) spent_[i] += other.spent_[i];
  return *this;
}

Duration TimeAccount::total() const { return std::accumulate(spent_.begin(), spent_.end(), Duration::zero()); }

double TimeAccount::ettr() const {
  const Duration all = total();
  if (all <= Duration::zero()) return 0;
  return static_cast<double>((*this)[TimeKind::productive].count()) / static_cast<double>(all.count());
}

Duration TimeAccount::move(TimeKind from, TimeKind to, Duration most) {
  const Duration moved = std::clamp(most, Duration::zero(), std::max((*this)[from], Duration::zero()));
  (*this)[from] -= moved;
  (*this)[to] += moved;
  return moved;
}

Duration KeptSteps::lost_from(std::uint64_t first) const {
  if (steps == 0 || first > last) return {};
  const std::uint64_t again = std::min(last - first, steps - 1) + 1;
  return std::chrono::duration_cast<Duration>(time * (static_cast<double>(again) / static_cast<double>(steps)));
}

std::optional<KeptSteps> kept_steps(const RoundSpent& spent) {
  if (!spent.first_step || !spent.last_step || spent.steps == 0) return {};
  return KeptSteps{*spent.last_step, spent.steps, std::max(spent.train - spent.unfinished, Duration::zero())};
}

TimeAccount account_of(const RoundSpent& spent, Duration length, RoundEnd end) {
  TimeAccount out;
  Duration left = std::max(length, Duration::zero());
  take(out, TimeKind::start, spent.start, left);
  take(out, TimeKind::restore, spent.restore, left);
  take(out, TimeKind::save, spent.save, left);
  take(out, TimeKind::productive, std::max(spent.train, Duration::zero()) + spent.evaluate, left);
  take(out, end == RoundEnd::running ? spent.doing : TimeKind::stop, left, left);
  if (!spent.reports) return out;
  if (end == RoundEnd::hang) take_hang(out, spent);
  if (end == RoundEnd::hang || end == RoundEnd::failure)
    out.move(TimeKind::productive, TimeKind::lost_work, spent.unfinished - out[TimeKind::hang]);
  return out;
}

void JobAccount::add_round(const RoundSpent& round, Duration length, RoundEnd end) {
  if (round.first_step) spent.move(TimeKind::productive, TimeKind::lost_work, kept.lost_from(*round.first_step));
  spent += account_of(round, length, end);
  if (end == RoundEnd::running) return;
  ++rounds;
  if (const auto steps = kept_steps(round)) kept = *steps;
}

TimeAccount so_far(JobAccount closed, const RoundSpent& running, Duration since_formed) {
  closed.add_round(running, since_formed, RoundEnd::running);
  return closed.spent;
}

}  // namespace ddprun::rendezvous
