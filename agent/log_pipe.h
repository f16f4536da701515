// A worker's output on its way to the console and its log file, and the last lines of it for the report.
//
// A thread of its own reads the pipes: whoever reads our console may be slow or stopped, and that must stop neither the
// supervisor nor the store. The worker is slowed down instead, as it would be with the console itself.
#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agent/process.h"

namespace ddprun {

struct LogStream {
  int round = 0;
  int rank = 0;
  int console_fd = 2;          // where its bytes go, unaltered: 1 or 2
  std::filesystem::path file;  // and there, appended; empty: nowhere
  bool whole_lines = false;    // several workers share the console: no line of one is torn by another's
  bool remember_tail = false;  // for last_lines()
};

class LogPipes {
 public:
  LogPipes();
  ~LogPipes();
  // The end to give to a worker, a terminal where the console is one. Close it once the worker has it.
  // Throws Error where neither pipe nor log file can be opened.
  Fd open(const LogStream& stream);
  // Oldest first, at most 20, without line ends.
  std::vector<std::string> last_lines(int round, int rank) const;
  // A line of our own to stderr, after what has been written before.
  void print(const std::string& text);
  // Waits until all that has been written is on the console: every writer is gone. False: not within `limit`.
  bool drain(std::chrono::milliseconds limit);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive us where the console is stuck
};

}  // namespace ddprun
