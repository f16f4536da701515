// torchrun's file-timer protocol: workers write into a named pipe when they want to be signalled, and take it back in
// time. One object per round: the pipe is made with it and goes with it.
//
// Nothing is polled: the loop reads the pipe, and a timerfd of the wall clock tells an expiry, also where somebody sets
// the clock. Only a worker or a descendant of one is ever signalled.
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
  pid_t worker = 0;  // whose failure it is: the process itself or its forebear
  ExpiredTimer timer;
};

class FileTimer {
 public:
  struct Surroundings {
    std::function<std::vector<pid_t>()> workers;        // those that live, unreaped
    std::function<void(const TimerExpiry&)> on_expiry;  // the signal has been sent
    std::function<void(const std::string&)> say;        // a line about a bad request, without "ddprun: " and '\n'
  };

  // `path` empty: a fresh name in the folder for temporary files. Throws UsageError where the pipe cannot be made: a
  // file is there that is no pipe, or a pipe that somebody reads.
  FileTimer(asio::io_context& io, const std::string& path, Surroundings surroundings);
  // Removes the pipe, if it is still the one that was made.
  ~FileTimer();
  FileTimer(const FileTimer&) = delete;
  FileTimer& operator=(const FileTimer&) = delete;

  const std::string& path() const { return path_; }  // for TORCHELASTIC_TIMER_FILE

 private:
  void read();
  void take(const std::string& line);
  void await_expiry();
  void arm();
  void on_timer();
  void signal(const ExpiredTimer& timer);
  void say_once(const std::string& what);

  Surroundings surroundings_;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  asio::posix::stream_descriptor pipe_, clock_;
  std::array<char, 4096> buffer_;
  std::string held_;  // the start of a line whose end has not come yet
  TimerTable table_;
  bool said_ = false;
};

}  // namespace ddprun::agent
