#include "agent/hang/round_account.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "rendezvous/coordination/coordinator.h"

namespace ddprun::agent {

RoundAccount::RoundAccount(asio::io_context& io, Hooks hooks) : hooks_(std::move(hooks)), timer_(io) {}

void RoundAccount::begin(const rendezvous::Seat& seat) {
  seat_ = seat;
  meter_.begin(Clock::now());
  spent_.reset();
  told_ = has_pages_ = false;
  if (hooks_.on_progress && seat.group_rank == 0) await_progress();
}

// The step that all ranks here have done.
void RoundAccount::write_progress() {
  if (!hooks_.on_progress || !has_pages_ || seat_->group_rank != 0) return;
  std::optional<JobProgress> least;
  std::vector<double> losses;
  std::optional<std::uint64_t> total_steps;
  for (int local_rank = 0; local_rank < hooks_.workers(); ++local_rank) {
    const Progress progress = hooks_.progress(local_rank);
    if (progress.step && (!least || *progress.step < least->step)) least = JobProgress{.step = *progress.step};
    if (progress.loss) losses.push_back(*progress.loss);
    total_steps = std::max(total_steps, progress.total_steps);
  }
  if (!least) return;
  least->total_steps = total_steps;
  if (const auto step = hooks_.recent_step(); step && *step > Duration::zero())
    least->steps_per_second = 1 / std::chrono::duration<double>(*step).count();
  if (!losses.empty())
    least->loss = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  hooks_.on_progress(*least);
}

void RoundAccount::await_progress() {
  constexpr std::chrono::seconds kWriteEvery{60};
  timer_.expires_after(kWriteEvery);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error || spent_) return;
    write_progress();
    await_progress();
  });
}

void RoundAccount::look() {
  if (!spent_) measure();
}

// The first worker that reports, else the first that has attached.
rendezvous::RoundSpent RoundAccount::measure() {
  Progress first;
  for (int local_rank = 0; has_pages_ && local_rank < hooks_.workers(); ++local_rank) {
    const Progress progress = hooks_.progress(local_rank);
    if (progress.at || (progress.times && !first.times)) first = progress;
    if (progress.at) break;
  }
  const TimePoint now = Clock::now();
  meter_.look(first, now);
  return meter_.spent(now);
}

std::optional<rendezvous::RoundSpent> RoundAccount::spent() {
  if (!seat_) return {};
  return spent_ ? spent_ : measure();
}

std::optional<rendezvous::RoundSpent> RoundAccount::close() {
  if (!seat_ || spent_) return {};
  timer_.cancel();
  write_progress();
  spent_ = measure();
  tell();
  return spent_;
}

void RoundAccount::tell(bool again) {
  if (again) told_ = false;
  if (!spent_ || told_ || seat_->group_rank >= rendezvous::kSpentTellers) return;
  told_ = hooks_.tell(seat_->round, *spent_);
}

}  // namespace ddprun::agent
