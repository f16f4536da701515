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
