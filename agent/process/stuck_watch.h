// Finds a worker that has been in uninterruptible sleep for too long: the kernel waits for a device or a file server,
// and no signal ends it (torchrun's TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT).
//
// A value. The time starts again when a worker is seen outside of such a sleep.
#pragma once
#include <map>
#include <optional>
#include <set>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

class StuckWatch {
 public:
  explicit StuckWatch(Duration limit) : limit_(limit) {}
  // Between two calls of update().
  Duration pause() const;
  // `asleep`: the local ranks of one round in such a sleep now. Returns the first one that has reached the limit.
  std::optional<int> update(const std::set<int>& asleep, TimePoint now);

 private:
  Duration limit_;
  std::map<int, TimePoint> since_;  // by local rank
};

}  // namespace ddprun::agent
