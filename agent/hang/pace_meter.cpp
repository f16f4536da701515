#include "agent/hang/pace_meter.h"

#include <algorithm>

namespace ddprun::agent {
namespace {

// A worker may write what it likes, and a time that goes back is none.
std::uint64_t microseconds(std::chrono::nanoseconds from, std::chrono::nanoseconds to) {
  return to > from ? static_cast<std::uint64_t>((to - from) / std::chrono::microseconds(1)) : 0;
}

}  // namespace

void PaceMeter::begin_round(int nodes, TimePoint now) {
  windows_.clear();
  look_every_ = std::max<Duration>(kLookEvery, nodes * kPerNode);
  window_min_ = std::max<Duration>(kWindowMin, look_every_);
  round_began_ = now;
  next_look_ = now + look_every_;
}

bool PaceMeter::is_complete(const Begin& begin, const Progress& seen, TimePoint now) const {
  const std::uint64_t steps = seen.steps_done - begin.steps;
  const bool same_part = begin.beat == DDPRUN_BEAT_NONE || begin.beat == seen.beat->kind;
  return now - begin.at >= window_min_ && steps >= kStepsMin && (same_part || steps >= kStepsAnywhere);
}

std::vector<rendezvous::Pace> PaceMeter::look(const std::map<int, Progress>& workers, TimePoint now) {
  next_look_ = now + look_every_;
  std::vector<rendezvous::Pace> out;
  for (const auto& [local_rank, seen] : workers) {
    if (!seen.beat) continue;
    const Beat& beat = *seen.beat;
    Begin& begin = windows_.try_emplace(local_rank, Begin{.at = round_began_}).first->second;
    if (seen.steps_done < begin.steps) begin = {.at = begin.at};  // the program was exec'd again
    if (!is_complete(begin, seen, now)) continue;
    out.push_back({.rank = local_rank,
                   .steps = seen.steps_done - begin.steps,
                   .load_us = microseconds(begin.load, beat.load),
                   .compute_us = microseconds(begin.compute, beat.compute),
                   .wait_us = microseconds(begin.wait, beat.wait)});
    begin = {seen.steps_done, beat.load, beat.compute, beat.wait, beat.kind, now};
  }
  return out;
}

}  // namespace ddprun::agent
