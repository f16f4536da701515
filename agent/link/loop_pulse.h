// Measures how long an event loop has stood, from another thread: it runs nothing that it is given.
#pragma once
#include <atomic>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

class LoopPulse {
 public:
  explicit LoopPulse(asio::io_context& loop) : loop_(loop) {}

  // For one thread, again and again: since the call that the loop has not answered yet.
  Duration stood() {
    const TimePoint now = Clock::now();
    if (!awaited_->exchange(true)) {
      asked_at_ = now;
      asio::post(loop_, [awaited = awaited_] { *awaited = false; });
    }
    return now - asked_at_;
  }

 private:
  asio::io_context& loop_;
  TimePoint asked_at_ = {};
  const std::shared_ptr<std::atomic<bool>> awaited_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace ddprun::agent
