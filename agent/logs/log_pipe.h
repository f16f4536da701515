// Carries the workers' output to the console and to log files, and keeps the last lines of it for the report.
//
// A thread of its own reads the pipes: the reader of our console may be slow or stopped, and that must not stop the
// supervisor or the store. The worker is slowed down instead, as it would be by the console itself; a worker that
// writes only to a file is not.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/logs/line_prefix.h"
#include "agent/logs/log_file.h"
#include "agent/process/process.h"

namespace ddprun::agent {

struct LogStream {
  int round = 0;
  int rank = 0;
  bool is_stdout = false;    // else stderr
  int console_fd = -1;       // 1 or 2; -1: not shown
  bool whole_lines = false;  // several workers share the console: lines are never mixed
  LinePrefix prefix = {};    // of each line in the filtered file and, if `prefixed`, on the console
  bool prefixed = false;
  bool colour = false;              // of the console's prefix, if that is a terminal
  bool remember_tail = false;       // for last_lines()
  bool hold_tracebacks = false;     // kept off the console until show_tracebacks()
  std::filesystem::path file = {};  // appended, unaltered; empty: no file
  LogLimit limit = {};
  std::filesystem::path filtered_file = {};  // shared: the lines, with their prefix, that contain any of `needles`
  std::vector<std::string> needles = {};
  std::function<void(std::string_view bytes)> tap =
      {};  // gets all bytes, in the thread, once they are passed on; may be empty
};

class LogPipes {
 public:
  LogPipes();
  ~LogPipes();
  // The end to give to a worker; close it once the worker has it. A terminal if the console is one and lines get no
  // prefix, else a pipe. Throws Error if neither can be opened. A log file that cannot be written causes one warning.
  Fd open(const LogStream& stream);
  // stream.file itself, which the worker then writes directly. Empty, after a warning, if it could not be opened.
  Fd own_file(const LogStream& stream, OpenedFile opened);
  // The streams of a worker that stays: from now on they are that round's and rank's, with the prefix and tap given.
  void go_on(int round, int rank, const LogStream& as);
  // For a stream with remember_tail: oldest first, at most 20, without line ends; if it ended with a traceback, the
  // traceback.
  std::vector<std::string> last_lines(int round, int rank) const;
  // Reads the files that workers write themselves, for last_lines(): newest_part() of regular_file.h, if nobody calls
  // this.
  void read_files_by(std::function<std::string(const std::filesystem::path&, std::uintmax_t begin)> read) {
    read_file_ = std::move(read);
  }
  // The end of what these streams have brought, of those that are open and pass through us.
  struct PassedEnd {
    bool is_stdout = false;
    TimePoint at = {};
    std::string bytes = {};  // empty: nothing yet
  };
  std::vector<PassedEnd> passed_ends(int round, int rank) const;
  // Waits until all its writers have closed it, so that last_lines() is final; at most `limit`: a descendant may keep
  // it open.
  void await_end(int round, int rank, std::chrono::milliseconds limit) const;
  // Waits until all its writers have closed all its streams that pass through us: all has come; at most `limit`.
  void await_close(int round, int rank, std::chrono::milliseconds limit) const;
  // Prints a line of our own, with or without its line end, to stderr after all earlier output. This, print_lines(),
  // show() and warn() escape control characters that would act on a terminal.
  void print(const std::string& line);
  // The same for several lines, such as a report.
  void print_lines(const std::string& text);
  // Shows the tracebacks with which workers ended and that no console has shown, except those that this report quotes.
  // Without this call they are shown after 15 s.
  void show_tracebacks(const std::string& report);
  // On a terminal, a line without an end, which the next output replaces. Empty: removes it.
  void show(const std::string& line);
  // Prints a line about a file that cannot be written; only the first call prints, as a full disk affects all files.
  void warn(const std::string& text);
  // Our terminal's size has changed: passes it on to the workers' terminals. Sends no signal.
  void resize();
  // Waits until all output is on the console and in the files, and every writer has closed its pipe. Waits for a slow
  // reader; one that accepts nothing for `stuck` loses the rest, and the result is false.
  bool drain(std::chrono::milliseconds stuck);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive us if a disk is stuck
  std::function<std::string(const std::filesystem::path&, std::uintmax_t)> read_file_;
  struct End;
  std::shared_ptr<End> end_;  // of that thread
};

}  // namespace ddprun::agent
