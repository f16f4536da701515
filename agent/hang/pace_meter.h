// Cuts what workers report into windows, of which their nodes' coordinator finds stragglers.
//
// A value: it owns no clock and no page.
//
// A window has five steps and 0.6 s at least: so a rank that is slow in long steps is found within 20 of them, and with
// several nodes, each sends no more than the coordinator can take. A page is read in the middle of a step, when some
// parts of it are counted and others are not. So a window ends in the part in which it began, if two more steps are
// enough for that: a rank that becomes slow may never be seen in that part again.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "agent/channel/channel_page.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/inquiry/straggler.h"

namespace ddprun::agent {

class PaceMeter {
 public:
  static constexpr std::uint64_t kStepsMin = 5, kStepsAnywhere = 7;
  static constexpr std::chrono::milliseconds kWindowMin{600}, kLookEvery{100};
  static constexpr std::chrono::milliseconds kPerNode{2};  // 500 messages a second to the coordinator

  void begin_round(int nodes, TimePoint now);
  // Of the workers that live, by local rank. The windows that are complete; workers that report no beats have none.
  // `rank`s are local.
  std::vector<rendezvous::Pace> look(const std::map<int, Progress>& workers, TimePoint now);
  TimePoint next_look() const { return next_look_; }

 private:
  struct Begin {  // of a window
    std::uint64_t steps = 0;
    std::chrono::nanoseconds load = {}, compute = {}, wait = {};
    ddprun_beat beat = DDPRUN_BEAT_NONE;
    TimePoint at = {};
  };
  bool is_complete(const Begin& begin, const Progress& seen, TimePoint now) const;

  std::map<int, Begin> windows_;
  Duration look_every_ = kLookEvery, window_min_ = kWindowMin;
  TimePoint next_look_ = {}, round_began_ = {};
};

}  // namespace ddprun::agent
