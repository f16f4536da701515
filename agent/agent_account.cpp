// Where the time of a round went on this node: told to the coordinator once, when the round ends here.
#include <numeric>

#include "agent/agent.h"

namespace ddprun::agent {

void Agent::begin_account() {
  round_meter_.begin(Clock::now());
  round_spent_.reset();
  spent_told_ = pages_of_round_ = false;
  if (job_events_.on() && seat_->group_rank == 0) watch_progress();
}

// The step that all ranks here have done.
void Agent::write_progress() {
  if (!job_events_.on() || !pages_of_round_ || seat_->group_rank != 0) return;
  const TimePoint now = Clock::now();
  std::optional<JobProgress> least;
  std::vector<double> losses;
  for (const auto& [local_rank, worker] : workers_.records()) {
    const Progress progress = workers_.channels().progress(local_rank, now);
    if (progress.step && (!least || *progress.step < least->step)) least = JobProgress{.step = *progress.step};
    if (progress.loss) losses.push_back(*progress.loss);
  }
  if (!least) return;
  if (const auto step = watch_.median_step(); step && *step > Duration::zero())
    least->steps_per_second = 1 / std::chrono::duration<double>(*step).count();
  if (!losses.empty())
    least->loss = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  job_events_.progressed(*least);
}

void Agent::watch_progress() {
  constexpr std::chrono::seconds kWriteEvery{60};
  progress_timer_.expires_after(kWriteEvery);
  progress_timer_.async_wait([this](const asio::error_code& error) {
    if (error || round_spent_) return;
    write_progress();
    watch_progress();
  });
}

// The first worker that reports, else the first that has attached.
rendezvous::RoundSpent Agent::measure_round() {
  const TimePoint now = Clock::now();
  Progress first;
  for (const auto& [local_rank, worker] : workers_.records()) {
    if (!pages_of_round_) break;
    const Progress progress = workers_.channels().progress(local_rank, now);
    if (progress.at || (progress.times && !first.times)) first = progress;
    if (progress.at) break;
  }
  round_meter_.look(first, now);
  return round_meter_.spent(now);
}

std::optional<rendezvous::RoundSpent> Agent::spent_so_far() {
  if (!seat_) return {};
  return round_spent_ ? round_spent_ : measure_round();
}

void Agent::close_account() {
  faults_.end();
  if (!seat_ || round_spent_) return;
  progress_timer_.cancel();
  write_progress();
  round_spent_ = measure_round();
  if (measures_) measures_->snapshot_stall += round_spent_->save;
  tell_spent();
}

// What was measured without contact is told with the next offer of the node.
void Agent::tell_spent() {
  if (!round_spent_ || spent_told_ || seat_->group_rank >= rendezvous::kSpentTellers) return;
  spent_told_ = contact_.coordination().send(rendezvous::NodeSpent{node(), seat_->round, *round_spent_});
}

}  // namespace ddprun::agent
