#include "agent/hang/pace_meter.h"

namespace ddprun::agent {
namespace {

// A worker may write what it likes, and a time that goes back is none.
std::uint64_t microseconds(std::chrono::nanoseconds from, std::chrono::nanoseconds to) {
  return to > from ? static_cast<std::uint64_t>((to - from) / std::chrono::microseconds(1)) : 0;
}

}  // namespace

void PaceMeter::begin_round(TimePoint now) {
  last_.clear();
  next_look_ = now + kEvery;
}

std::vector<rendezvous::Pace> PaceMeter::look(const std::map<int, Progress>& workers, TimePoint now) {
  next_look_ = now + kEvery;
  std::vector<rendezvous::Pace> out;
  for (const auto& [local_rank, seen] : workers) {
    if (!seen.beat) continue;
    const Beat& beat = *seen.beat;
    Counters& last = last_[local_rank];
    if (seen.steps_done < last.steps) last = {};  // the program was exec'd again
    if (seen.steps_done - last.steps < kStepsMin) continue;
    out.push_back({.rank = local_rank,
                   .steps = seen.steps_done - last.steps,
                   .load_us = microseconds(last.load, beat.load),
                   .compute_us = microseconds(last.compute, beat.compute),
                   .wait_us = microseconds(last.wait, beat.wait)});
    last = {seen.steps_done, beat.load, beat.compute, beat.wait};
  }
  return out;
}

}  // namespace ddprun::agent
