// torchrun's file-timer protocol: workers write into a named pipe to request a signal at a given time, and cancel the
// request in time. One object per round creates and removes the pipe.
//
// Nothing is polled: the loop reads the pipe, and a timerfd of the wall clock reports an expiry, even if the clock is
// set. Only a worker or a descendant of one is ever signalled.
#pragma once
#include <sys/types.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "agent/channel/timer_table.h"

namespace ddprun::agent {

struct TimerExpiry {
  pid_t worker = 0;  // that has failed: the process itself or an ancestor
  ExpiredTimer timer;
};

class FileTimer {
 public:
  struct Hooks {
    std::function<std::vector<pid_t>()> workers;        // not reaped yet
    std::function<void(const TimerExpiry&)> on_expiry;  // the signal has been sent
    std::function<void(const std::string&)> print;      // a line on a bad request, without "ddprun: " and '\n'
  };

  // `path` empty: a fresh name in the folder for temporary files. Throws UsageError if the pipe cannot be created: the
  // path is a file that is not a pipe, or a pipe with a reader.
  FileTimer(asio::io_context& io, const std::string& path, Hooks hooks);
  // Removes the pipe, if it is still ours.
  ~FileTimer();
  FileTimer(const FileTimer&) = delete;
  FileTimer& operator=(const FileTimer&) = delete;

  const std::string& path() const { return path_; }  // for TORCHELASTIC_TIMER_FILE

 private:
  void read();
  void on_line(const std::string& line);
  void await_expiry();
  void arm();
  void on_timer();
  void signal(const ExpiredTimer& timer);
  void print_once(const std::string& what);

  Hooks hooks_;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  asio::posix::stream_descriptor pipe_, clock_;
  std::array<char, 4096> buffer_;
  std::string held_;  // the start of an incomplete line
  TimerTable table_;
  bool printed_ = false;
};

}  // namespace ddprun::agent
