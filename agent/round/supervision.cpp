#include "agent/round/supervision.h"

#include <utility>

namespace ddprun::agent {

void Supervision::dispatch(const Event& event) {
  events_.push_back(event);
  if (std::exchange(handling_, true)) return;
  for (; !events_.empty(); events_.pop_front()) {
    hooks_.on_event(events_.front());
    event_at_ = Clock::now();
    for (const Action& action : supervisor_.on(events_.front(), event_at_)) hooks_.carry_out(action);
  }
  handling_ = false;
  arm_timer();
}

void Supervision::arm_timer() {
  const auto deadline = supervisor_.next_deadline();
  if (!deadline) return void(timer_.cancel());
  timer_.expires_at(*deadline);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) dispatch(Tick{});
  });
}

}  // namespace ddprun::agent
