// Ends what the workers of a round have left behind, while the loop goes on: heartbeats and signals shall not wait for
// what the kernel holds.
#pragma once
#include <functional>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/process/cgroup.h"
#include "agent/process/children.h"

namespace ddprun::agent {

class RoundSweep {
 public:
  // `on_swept`: nothing of the round is left. It may be called inside begin().
  RoundSweep(asio::io_context& io, std::function<void(int round)> on_swept);
  // `cgroup` of the workers; null: they have none.
  void begin(int round, const Cgroup* cgroup);
  // Whatever is left: these processes.
  const std::vector<pid_t>& stop();

 private:
  void look(int round);

  const std::function<void(int)> on_swept_;
  asio::steady_timer again_;
  ChildSweep sweep_;
  int round_ = 0;  // 0: none
};

}  // namespace ddprun::agent
