// Ends what the workers of a round have left behind without blocking the loop: heartbeats and signals must not wait for
// processes that the kernel holds.
#pragma once
#include <functional>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/process/children.h"
#include "agent/process/groups/cgroup.h"

namespace ddprun::agent {

class RoundSweep {
 public:
  // `on_swept`: no process of the round is left. It may be called inside begin().
  RoundSweep(asio::io_context& io, std::function<void(int round)> on_swept);
  // `cgroup`: the workers'; null: they have none. `spared`: children that are none of the round's.
  void begin(int round, const Cgroup* cgroup, std::vector<pid_t> spared = {});
  // Returns the processes that are left.
  const std::vector<pid_t>& stop();

 private:
  void step(int round);

  const std::function<void(int)> on_swept_;
  asio::steady_timer retry_timer_;
  ChildSweep sweep_;
  int round_ = 0;  // 0: none
};

}  // namespace ddprun::agent
