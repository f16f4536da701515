// A std::timed_mutex that the thread sanitizer understands: libstdc++'s waits by pthread_mutex_clocklock, which GCC
// 12's sanitizer does not know, so it reports the unlock as an error.
#pragma once
#include <condition_variable>
#include <mutex>

#include "rendezvous/base/time.h"

namespace ddprun {

// Meets TimedLockable: std::unique_lock lock(mutex, deadline) owns it, or converts to false after a time-out.
class TimedMutex {
 public:
  void lock() {
    std::unique_lock guard(mutex_);
    free_.wait(guard, [this] { return !taken_; });
    taken_ = true;
  }
  bool try_lock_until(TimePoint deadline) {
    std::unique_lock guard(mutex_);
    return free_.wait_until(guard, deadline, [this] { return !taken_; }) && (taken_ = true);
  }
  void unlock() {
    const std::lock_guard guard(mutex_);
    taken_ = false;
    free_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
};

}  // namespace ddprun
