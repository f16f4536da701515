// Tells the coordinator how fast the workers of this node are: of what pace_meter.h cuts it finds stragglers.
//
// For the thread of the io_context; hooks are called there.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/hang/pace_meter.h"
#include "agent/hang/worker_watch.h"

namespace ddprun::agent {

class PaceWatch {
 public:
  struct Hooks {
    std::function<std::optional<int>()> running_round;              // of which no end was decided
    std::function<void(std::vector<rendezvous::Pace>)> tell_paces;  // ranks are local
  };
  // `on`: else nothing is watched.
  PaceWatch(asio::io_context& io, bool on, WorkersSeen workers, Hooks hooks)
      : on_(on), workers_(std::move(workers)), hooks_(std::move(hooks)), timer_(io) {}

  void begin_round(int nodes);

 private:
  void watch();
  void look(TimePoint now);

  const bool on_;
  const WorkersSeen workers_;
  const Hooks hooks_;
  PaceMeter meter_;
  asio::steady_timer timer_;
};

}  // namespace ddprun::agent
