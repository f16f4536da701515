// Gives the supervisor every event in the order in which it happened, and its timer's, and hands out its actions.
//
// Events that arise while an action is carried out wait until all actions of the current one are. For the thread of the
// io_context.
#pragma once
#include <deque>
#include <functional>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/round/events.h"
#include "agent/round/supervisor.h"

namespace ddprun::agent {

class Supervision {
 public:
  struct Hooks {
    std::function<void(const Event&)> on_event;  // for the log
    std::function<void(const Action&)> carry_out;
  };
  Supervision(asio::io_context& io, const StopPolicy& policy, Hooks hooks)
      : supervisor_(policy), hooks_(std::move(hooks)), timer_(io) {}

  void dispatch(const Event& event);
  const Supervisor& now() const { return supervisor_; }
  TimePoint event_at() const { return event_at_; }  // when the event that is being handled was

 private:
  void arm_timer();

  Supervisor supervisor_;
  const Hooks hooks_;
  asio::steady_timer timer_;
  std::deque<Event> events_;
  bool handling_ = false;
  TimePoint event_at_ = {};
};

}  // namespace ddprun::agent
