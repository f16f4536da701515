// How long the parts of the job's steps take, as its workers' beats have shown. What may take how long follows from it.
//
// Pure. Agents learn it (agent/hang/hang_watch.h); the ledger's record carries it to nodes that join and, with
// --state-dir, to the next start of the job.
#pragma once
#include <algorithm>
#include <cstdint>

#include "rendezvous/base/time.h"

namespace ddprun::rendezvous {

struct LearnedTimes {
  int world_size = 0;       // of the round in which they were seen; 0: nothing is known
  std::uint64_t steps = 0;  // of the job, at least
  Duration step = {};       // the median
  // The longest but a few; zero: not seen yet.
  Duration start = {}, load = {}, compute = {}, wait = {}, save = {}, evaluate = {};

  friend bool operator==(const LearnedTimes&, const LearnedTimes&) = default;
};

// Of all nodes of a round.
inline LearnedTimes longest(const LearnedTimes& a, const LearnedTimes& b) {
  return {.world_size = b.world_size,
          .steps = std::max(a.steps, b.steps),
          .step = std::max(a.step, b.step),
          .start = std::max(a.start, b.start),
          .load = std::max(a.load, b.load),
          .compute = std::max(a.compute, b.compute),
          .wait = std::max(a.wait, b.wait),
          .save = std::max(a.save, b.save),
          .evaluate = std::max(a.evaluate, b.evaluate)};
}

// What a later round has shown, and for what it has not an earlier one.
inline LearnedTimes newer(const LearnedTimes& earlier, LearnedTimes later) {
  for (Duration LearnedTimes::*time : {&LearnedTimes::start, &LearnedTimes::load, &LearnedTimes::compute,
                                       &LearnedTimes::wait, &LearnedTimes::save, &LearnedTimes::evaluate})
    if (later.*time == Duration::zero()) later.*time = earlier.*time;
  return later;
}

}  // namespace ddprun::rendezvous
