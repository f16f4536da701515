// The line about a wait for other nodes: on a terminal one line that is updated each second; in a log one line for each
// change, and an occasional one while nothing changes.
//
// For the thread of the io_context.
#pragma once
#include <set>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/logs/log_pipe.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

class WaitingLine {
 public:
  WaitingLine(asio::io_context& io, LogPipes& pipes);
  // Shows what this node is waiting for, and replaces what it showed before.
  void show(const std::string& text);
  // Why the wait lasts. Each reason is printed once, as those of several places alternate; and not before
  // kMessageDelay, unless it is certain that time alone does not help.
  void show_reason(const std::string& text, bool certain = false);
  void end();
  Duration elapsed() const;

 private:
  void change(const std::string& text);
  void count_seconds();
  void schedule_reminder();
  void print_once(const std::string& text);

  LogPipes& pipes_;
  const bool on_terminal_;
  asio::steady_timer timer_;  // of the next second, or of the next line in a log
  std::string text_;          // empty: no wait
  TimePoint since_;
  std::set<std::string> printed_;
};

}  // namespace ddprun::agent
