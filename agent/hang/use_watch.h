// Looks every few seconds at what the workers take of the machine.
//
// For the thread of the io_context; hooks are called there.
#pragma once
#include <functional>
#include <optional>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/hang/use_meter.h"
#include "agent/hang/worker_watch.h"

namespace ddprun::agent {

class UseWatch {
 public:
  struct Hooks {
    std::function<std::optional<int>()> running_round;  // of which no end was decided
    std::function<void()> on_all_still;                 // and none of them has ever reported anything
  };
  UseWatch(asio::io_context& io, WorkersSeen workers, Hooks hooks)
      : workers_(std::move(workers)), hooks_(std::move(hooks)), timer_(io) {}

  void begin_round();
  // Until now. Empty: it has ended.
  std::optional<WorkerUse> use(int local_rank) const;

 private:
  void watch(Duration pause);
  void look();

  const WorkersSeen workers_;
  const Hooks hooks_;
  UseMeter meter_;
  asio::steady_timer timer_;
};

// What /proc says of a process, and of what it has started.
UseSample use_sample(pid_t worker);

}  // namespace ddprun::agent
