// A process that need not be our child: its pid may become another's at any moment. It is identified when this is made,
// by a pidfd or, on a kernel without them, by the time of its start. So what is read about the pid after that is about
// this process, if a signal reaches it then.
#pragma once
#include <sys/types.h>

#include <chrono>

#include "rendezvous/base/child_process.h"
#include "rendezvous/base/fd.h"

namespace ddprun::agent {

class OtherProcess {
 public:
  explicit OtherProcess(pid_t pid, bool by_pidfd = has_pidfds());
  // False: there was none.
  explicit operator bool() const { return by_pidfd_ ? bool(pidfd_) : start_time_ != 0; }
  // False: it is gone, or not ours to signal.
  bool signal(int number) const;
  // Returns at the deadline if it has not ended.
  void await_end(std::chrono::steady_clock::time_point deadline) const;

 private:
  bool is_same() const;
  bool has_ended() const;

  pid_t pid_;
  bool by_pidfd_;
  Fd pidfd_ = {};
  unsigned long long start_time_ = 0;
};

}  // namespace ddprun::agent
