// The line about a wait for other nodes: on a terminal one that lives, with the time; in a log one for each change.
//
// For the thread of the io_context.
#pragma once
#include <set>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/log_pipe.h"
#include "rendezvous/time.h"

namespace ddprun {

class WaitingLine {
 public:
  WaitingLine(asio::io_context& io, LogPipes& pipes);
  // What is waited for now.
  void tell(const std::string& text);
  // Why it lasts. Told once of each reason, as those of several places come in turn.
  void tell_trouble(const std::string& text);
  void over();
  Duration so_far() const;

 private:
  void change(const std::string& text);
  void count_seconds();

  LogPipes& pipes_;
  const bool lives_;  // on a terminal
  asio::steady_timer second_;
  std::string text_;  // empty: nothing is waited for
  TimePoint since_;
  std::set<std::string> troubles_;  // that were told of
};

}  // namespace ddprun
