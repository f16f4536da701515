// Cuts what workers report into windows, of which their nodes' coordinator finds stragglers.
//
// A value: it owns no clock and no page.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "agent/channel/channel_page.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/straggler.h"

namespace ddprun::agent {

class PaceMeter {
 public:
  static constexpr std::uint64_t kStepsMin = 10;
  static constexpr std::chrono::seconds kEvery{2};

  void begin_round(TimePoint now);
  // Of the workers that live, by local rank. A window of each that has done kStepsMin steps since its last one; those
  // that report no beats have none. `rank`s are local.
  std::vector<rendezvous::Pace> look(const std::map<int, Progress>& workers, TimePoint now);
  TimePoint next_look() const { return next_look_; }

 private:
  struct Counters {
    std::uint64_t steps = 0;
    std::chrono::nanoseconds load = {}, compute = {}, wait = {};
  };
  std::map<int, Counters> last_;  // where the next window begins
  TimePoint next_look_ = {};
};

}  // namespace ddprun::agent
