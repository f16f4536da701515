#include "agent/round/round_sweep.h"

#include <utility>

namespace ddprun::agent {

RoundSweep::RoundSweep(asio::io_context& io, std::function<void(int)> on_swept)
    : on_swept_(std::move(on_swept)), retry_timer_(io) {}

void RoundSweep::begin(int round, const Cgroup* cgroup, std::vector<pid_t> spared) {
  if (cgroup) cgroup->kill();  // kills all at once; then we reap them
  sweep_ = ChildSweep(std::move(spared));
  round_ = round;
  step(round);
}

const std::vector<pid_t>& RoundSweep::stop() {
  round_ = 0;
  return sweep_.left();
}

void RoundSweep::step(int round) {
  if (round_ != round) return;  // the next round's workers would be killed
  if (sweep_.step()) return on_swept_(round);
  retry_timer_.expires_after(sweep_.pause());
  retry_timer_.async_wait([this, round](const asio::error_code& error) {
    if (!error) step(round);
  });
}

}  // namespace ddprun::agent
