// The workers that run, for a thread that must end them while the loop, which started them, stands.
//
// From any thread. A process is in it from its start until it is reaped, so its pid is its own.
#pragma once
#include <sys/types.h>

#include <csignal>
#include <mutex>
#include <set>

namespace ddprun::agent {

class WorkerFence {
 public:
  // While the fence is closed, it is killed at once.
  void add(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.insert(pid);
    if (closed_) end(pid);
  }
  void remove(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.erase(pid);
  }

  // Closes it until open() is given the number that is returned.
  int close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    return ++closings_;
  }
  bool is_closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  void open(int closing) {
    const std::lock_guard lock(mutex_);
    if (closing == closings_) closed_ = false;
  }
  void end_all() {
    const std::lock_guard lock(mutex_);
    for (const pid_t pid : pids_) end(pid);
  }

 private:
  static void end(pid_t pid) {
    kill(-pid, SIGKILL);  // a worker that is alone in the terminal's foreground leads no group
    kill(pid, SIGKILL);
  }

  std::mutex mutex_;
  std::set<pid_t> pids_;
  bool closed_ = false;
  int closings_ = 0;
};

}  // namespace ddprun::agent
