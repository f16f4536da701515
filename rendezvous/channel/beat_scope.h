// Reports by its lifetime what the training thread waits for (worker_channel.h): other ranks, or data.
//
// The training thread is the one that made the Worker (worker.h) or reported its last phase or step. In other threads,
// as in a process without a channel, these do nothing.
#pragma once
#include <pthread.h>

#include <atomic>

#include "rendezvous/channel/worker_channel.h"

namespace ddprun {

inline std::atomic<pthread_t> training_thread{};

inline void set_training_thread() { training_thread.store(pthread_self(), std::memory_order_relaxed); }
inline bool in_training_thread() { return training_thread.load(std::memory_order_relaxed) == pthread_self(); }

// In a collective. Within another one it changes nothing.
class WaitScope {
 public:
  // At most 8 characters of `collective` are shown. `waits` false: the scope does nothing.
  explicit WaitScope(const char* collective, bool waits = true)
      : WaitScope(waits && in_training_thread(), collective) {}
  // In a backward pass, which runs in a thread of the GPU while the training thread waits for it. `of_training`:
  // in_training_thread() of the forward pass.
  static WaitScope in_backward(const char* collective, bool of_training) { return WaitScope(of_training, collective); }
  ~WaitScope() {
    if (active_) ddprun_channel_beat(before_);
  }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  WaitScope(bool active, const char* collective) : active_(active) {
    if (active_) before_ = ddprun_channel_wait(collective);
  }

  const bool active_;
  ddprun_beat before_ = DDPRUN_BEAT_NONE;
};

// For data, in a phase of training.
class LoadScope {
 public:
  LoadScope() : active_(in_training_thread() && ddprun_channel_current_beat() == DDPRUN_BEAT_COMPUTE) {
    if (active_) ddprun_channel_beat(DDPRUN_BEAT_LOAD);
  }
  ~LoadScope() {
    if (active_) ddprun_channel_beat(DDPRUN_BEAT_COMPUTE);
  }
  LoadScope(const LoadScope&) = delete;
  LoadScope& operator=(const LoadScope&) = delete;

 private:
  const bool active_;
};

}  // namespace ddprun
