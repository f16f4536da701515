// How long the parts of the job's steps take, as its workers' beats have shown. What may take how long follows from it.
//
// Pure. Agents learn it (agent/hang/hang_watch.h); the ledger's record carries it to nodes that join and, with
// --state-dir, to the next start of the job.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::rendezvous {

struct LearnedTimes {
  int world_size = 0;       // of the round in which they were seen; 0: nothing is known
  std::uint64_t steps = 0;  // of the job, at least
  Duration step = {};       // the median
  // The longest but a few; zero: not seen yet.
  Duration start = {}, load = {}, compute = {}, wait = {}, save = {}, evaluate = {};
  // Where workers stood that were ended as hung, each once, the last ones: Failure::place. A program that pauses there
  // every time is not ended there every time.
  std::vector<std::string> hung_at = {};

  friend bool operator==(const LearnedTimes&, const LearnedTimes&) = default;
};

constexpr std::size_t kHungAtMax = 8, kPlaceMax = 200;  // places, and bytes of one

inline void add_hung_at(LearnedTimes& times, const std::string& place) {
  if (place.empty() || std::find(times.hung_at.begin(), times.hung_at.end(), place) != times.hung_at.end()) return;
  times.hung_at.push_back(place.substr(0, kPlaceMax));
  if (times.hung_at.size() > kHungAtMax) times.hung_at.erase(times.hung_at.begin());
}

// Of all nodes of a round: `a` is what the job's record has.
inline LearnedTimes longest(const LearnedTimes& a, const LearnedTimes& b) {
  return {.world_size = b.world_size,
          .steps = std::max(a.steps, b.steps),
          .step = std::max(a.step, b.step),
          .start = std::max(a.start, b.start),
          .load = std::max(a.load, b.load),
          .compute = std::max(a.compute, b.compute),
          .wait = std::max(a.wait, b.wait),
          .save = std::max(a.save, b.save),
          .evaluate = std::max(a.evaluate, b.evaluate),
          .hung_at = a.hung_at};
}

// What a later round has shown, and for what it has not an earlier one.
inline LearnedTimes newer(LearnedTimes earlier, LearnedTimes later) {
  for (Duration LearnedTimes::*time : {&LearnedTimes::start, &LearnedTimes::load, &LearnedTimes::compute,
                                       &LearnedTimes::wait, &LearnedTimes::save, &LearnedTimes::evaluate})
    if (later.*time == Duration::zero()) later.*time = earlier.*time;
  later.hung_at = std::move(earlier.hung_at);
  return later;
}

}  // namespace ddprun::rendezvous
