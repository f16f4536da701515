// What reaches an agent from outside its job: signals, the end of --max-run, the keeper's death.
//
// For the thread of the io_context.
#pragma once
#include <functional>
#include <optional>
#include <set>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/round/keeper_death.h"
#include "agent/round/signal_queue.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

class Outside {
 public:
  struct Hooks {
    std::function<void(int signal, bool from_terminal)> on_signal;
    std::function<void()> on_limit;         // of the run
    std::function<void()> on_keeper_death;  // KeeperDeath::on_death
  };
  // Takes ownership of `keeper_fd`. Throws Error.
  Outside(asio::io_context& io, const std::set<int>& signals, int keeper_fd)
      : signals_(io, signals), keeper_(io, keeper_fd), run_limit_(io) {}

  void start(const Hooks& hooks, std::optional<Duration> run_limit) {
    signals_.on_signal(hooks.on_signal);
    keeper_.on_death(hooks.on_keeper_death);
    if (!run_limit) return;
    run_limit_.expires_after(*run_limit);
    run_limit_.async_wait([on_limit = hooks.on_limit](const asio::error_code& error) {
      if (!error) on_limit();
    });
  }

 private:
  SignalQueue signals_;
  KeeperDeath keeper_;
  asio::steady_timer run_limit_;
};

}  // namespace ddprun::agent
