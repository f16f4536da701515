// The workers' output on its way to the console and to log files, and the last lines of it for the report.
//
// A thread of its own reads the pipes: whoever reads our console may be slow or stopped, and that must stop neither the
// supervisor nor the store. The worker is slowed down instead, as it would be with the console itself; one that writes
// only to a file is not.
#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agent/logs/line_prefix.h"
#include "agent/logs/log_file.h"
#include "agent/process/process.h"

namespace ddprun::agent {

struct LogStream {
  int round = 0;
  int rank = 0;
  int console_fd = -1;       // 1 or 2; -1: not there
  bool whole_lines = false;  // several workers share the console: no line of one is torn by another's
  LinePrefix prefix = {};    // of each line in the filtered file and, where `prefixed` says so, on the console
  bool prefixed = false;
  bool colour = false;              // of the console's prefix, where that is a terminal
  bool remember_tail = false;       // for last_lines()
  bool hold_tracebacks = false;     // off the console until show_tracebacks()
  std::filesystem::path file = {};  // appended, unaltered; empty: nowhere
  LogLimit limit = {};
  std::filesystem::path filtered_file = {};  // shared: the lines, with their prefix, that contain any of `needles`
  std::vector<std::string> needles = {};
};

class LogPipes {
 public:
  LogPipes();
  ~LogPipes();
  // The end to give to a worker; close it once the worker has it. A terminal where the console is one and lines get no
  // prefix, else a pipe. Throws Error where neither can be opened. A log file that cannot be written costs one warning.
  Fd open(const LogStream& stream);
  // stream.file itself, which the worker then writes without us. Empty, after a warning, where it cannot be opened.
  Fd own_file(const LogStream& stream);
  // Of a stream with remember_tail: oldest first, at most 20, without line ends; of one that ended with a traceback,
  // the traceback.
  std::vector<std::string> last_lines(int round, int rank) const;
  // Waits until all its writers are gone, so that these are the very last ones; at most so long: a descendant may go
  // on.
  void await_end(int round, int rank, std::chrono::milliseconds limit) const;
  // A line of our own to stderr, after what has been written before; with or without its end. This, print_lines(),
  // show() and warn() make visible what would act on a terminal, wherever it came from.
  void print(const std::string& line);
  // Several of them, as a report has.
  void print_lines(const std::string& text);
  // The tracebacks with which workers ended and that no console has shown, but those that this report quotes. Without
  // it they are shown 15 s later.
  void show_tracebacks(const std::string& report);
  // On a terminal, a line without an end: the next one, and whatever else is printed, takes its place. Empty: none.
  void show(const std::string& line);
  // A line about a file that cannot be written; only the first one in our life, as a full disk is full for all files.
  void warn(const std::string& text);
  // Our terminal has another size: the workers' get it too. It sends them no signal.
  void resize();
  // Waits until all that has been written is on the console and in the files: every writer is gone. A slow reader is
  // waited for; one that takes nothing for so long as `stuck` loses the rest, and the answer is false.
  bool drain(std::chrono::milliseconds stuck);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive us where a disk is stuck
  struct End;
  std::shared_ptr<End> end_;  // of that thread
};

}  // namespace ddprun::agent
