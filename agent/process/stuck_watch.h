// Which worker has been in uninterruptible sleep for too long: the kernel waits for a device or a file server there,
// and no signal ends it (torchrun's TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT).
//
// A value. A worker that is seen outside of such a sleep begins anew.
#pragma once
#include <map>
#include <optional>
#include <set>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

class StuckWatch {
 public:
  explicit StuckWatch(Duration limit) : limit_(limit) {}
  // Between two looks.
  Duration pause() const;
  // `asleep`: the local ranks found in such a sleep now, of one round. The first of them that has been for the limit.
  std::optional<int> look(const std::set<int>& asleep, TimePoint now);

 private:
  Duration limit_;
  std::map<int, TimePoint> since_;  // by local rank
};

}  // namespace ddprun::agent
