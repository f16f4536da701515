// The reports of worker_channel.py that a training step makes, compiled: it loads this library where it finds it, and
// does them itself where not. Called through ctypes, with Python's lock held.
#include "rendezvous/channel/worker_channel.h"  // first: it needs _GNU_SOURCE

#include <cstdint>

#define DDPRUN_EXPORT extern "C" __attribute__((visibility("default")))

// The page is the caller's, mapped and checked, and stays mapped; null: there is none any more.
DDPRUN_EXPORT void ddprun_channel_v1_use(ddprun_channel_page* page) { ddprun_channel_page_ = page; }

// As worker_channel.py's beat(): returns the beat before. `name`: up to 8 characters of a wait's collective.
DDPRUN_EXPORT unsigned ddprun_channel_v1_beat(unsigned kind, std::uint64_t name) {
  if (!ddprun_channel_page_) return DDPRUN_BEAT_NONE;
  const unsigned before = ddprun_channel_current_beat();
  const bool waits = kind == DDPRUN_BEAT_WAIT;
  if (waits && before == DDPRUN_BEAT_WAIT) return before;
  const std::uint64_t count = __atomic_load_n(&ddprun_channel_page_->beat.first, __ATOMIC_RELAXED) >> 8;
  ddprun_channel_write_beat_(kind | (count + (waits ? 1 : 0)) << 8, waits ? name : 0);
  return before;
}

// `more`: by how much the number of reported steps grows.
DDPRUN_EXPORT void ddprun_channel_v1_step(std::uint64_t step, unsigned more) {
  if (!ddprun_channel_page_) return;
  const std::uint64_t steps = __atomic_load_n(&ddprun_channel_page_->step.second, __ATOMIC_RELAXED);
  ddprun_channel_write_(&ddprun_channel_page_->step, step, steps + more);
}

// Compiled, as a handler of Python's runs only between two of its instructions: a rank in a call that waits for a dead
// peer would not end by SIGTERM.
DDPRUN_EXPORT void ddprun_channel_v1_handle_signals() {
  static bool hooked = false;  // in a child the page is not ours, and the signals end it as they do by default
  if (!hooked) hooked = pthread_atfork(nullptr, nullptr, [] { ddprun_channel_page_ = nullptr; }) == 0;
  if (hooked) ddprun_channel_handle_signals();
}

DDPRUN_EXPORT void ddprun_channel_v1_leave_signals() {
  int signals[8];
  const int count = ddprun_channel_preempt_signals(signals, 8);
  for (int i = 0; i < count; ++i) {
    struct sigaction now = {};
    if (sigaction(signals[i], nullptr, &now) != 0 || now.sa_handler != ddprun_channel_on_signal) continue;
    now = {};
    now.sa_handler = SIG_DFL;
    sigaction(signals[i], &now, nullptr);
  }
}
