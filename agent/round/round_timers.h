// The limits that a round's workers set themselves (torchrun's file timers), and the one for uninterruptible sleep.
//
// For the thread of the io_context.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/channel/file_timer.h"
#include "agent/process/stuck_watch.h"
#include "agent/round/worker_group.h"

namespace ddprun::agent {

class RoundTimers {
 public:
  struct Hooks {
    std::function<void(const std::string& line)> print;
    std::function<void(int local_rank, const ExpiredTimer&)> on_expiry;
    std::function<void(int round, int local_rank)> on_stuck;
    std::function<bool(int round)> has_workers;  // the round has
  };
  // `workers` must outlive it.
  RoundTimers(asio::io_context& io, const WorkerGroup& workers, Hooks hooks);

  // A fresh pipe for every round, like the store: what processes of an old round still write is not read. Returns its
  // path. `path`: chosen by the user; empty: we choose.
  std::string open(const std::string& path);
  void close();
  // Ends when the round has no workers.
  void watch_for_stuck(StuckWatch watch, int round);

 private:
  std::vector<pid_t> living_workers() const;
  void expired(const TimerExpiry& expiry);

  asio::io_context& io_;
  const WorkerGroup& workers_;
  const Hooks hooks_;
  asio::steady_timer stuck_timer_;
  std::unique_ptr<FileTimer> file_timer_;
};

}  // namespace ddprun::agent
