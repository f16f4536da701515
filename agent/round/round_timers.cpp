#include "agent/round/round_timers.h"

#include <set>
#include <utility>

#include "agent/process/process_state.h"

namespace ddprun::agent {

RoundTimers::RoundTimers(asio::io_context& io, const WorkerGroup& workers, Hooks hooks)
    : io_(io), workers_(workers), hooks_(std::move(hooks)), stuck_timer_(io) {}

std::string RoundTimers::open(const std::string& path) {
  file_timer_.reset();
  file_timer_ = std::make_unique<FileTimer>(
      io_, path,
      FileTimer::Hooks{[this] { return living_workers(); }, [this](const TimerExpiry& expiry) { expired(expiry); },
                       hooks_.print});
  return file_timer_->path();
}

void RoundTimers::close() { file_timer_.reset(); }

std::vector<pid_t> RoundTimers::living_workers() const {
  std::vector<pid_t> pids;
  for (const auto& [local_rank, worker] : workers_.records())
    if (worker.pid && !worker.status) pids.push_back(worker.pid);
  return pids;
}

void RoundTimers::expired(const TimerExpiry& expiry) {
  for (const auto& [local_rank, worker] : workers_.records())
    if (worker.pid == expiry.worker) return hooks_.on_expiry(local_rank, expiry.timer);
}

void RoundTimers::watch_for_stuck(StuckWatch watch, int round) {
  stuck_timer_.expires_after(watch.pause());
  stuck_timer_.async_wait([this, watch, round](const asio::error_code& error) mutable {
    if (error || !hooks_.has_workers(round)) return;
    std::set<int> asleep;
    for (const auto& [local_rank, worker] : workers_.records())
      if (worker.pid && !worker.status && process_state(worker.pid).letter == 'D') asleep.insert(local_rank);
    if (const auto stuck = watch.update(asleep, Clock::now())) return hooks_.on_stuck(round, *stuck);
    watch_for_stuck(std::move(watch), round);
  });
}

}  // namespace ddprun::agent
