// Measures where the time of a round went on this node, by what its first worker that reports says.
//
// A value: it owns no clock and no page. A worker whose worker_channel.h is older does not tell how long its phases
// took: then that comes from the looks, and a phase between two of them is not seen.
#pragma once
#include <optional>

#include "agent/channel/channel_page.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/round_spent.h"

namespace ddprun::agent {

class RoundMeter {
 public:
  void begin(TimePoint now);    // the node has got its seat
  void started(TimePoint now);  // all its workers have been exec'd
  void look(const Progress& progress, TimePoint now);
  // Until now.
  rendezvous::RoundSpent spent(TimePoint now) const;

 private:
  void sample(TimePoint now);
  TimePoint attached(TimePoint now) const;
  std::optional<TimePoint> work(TimePoint now) const;
  Duration in_phase(ddprun_phase phase, TimePoint now) const;  // since work()
  void add_steps(rendezvous::RoundSpent& out, TimePoint now) const;

  TimePoint began_ = {};
  std::optional<TimePoint> started_;
  Progress last_;
  std::optional<PhaseTimes> times_;
};

// The parts that `spent` knows of, together.
Duration measured(const rendezvous::RoundSpent& spent);

}  // namespace ddprun::agent
