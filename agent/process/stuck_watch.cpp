#include "agent/process/stuck_watch.h"

#include <algorithm>

namespace ddprun::agent {
namespace {

constexpr Duration kPauseMin = std::chrono::milliseconds(10), kPauseMax = std::chrono::seconds(1);

}  // namespace

Duration StuckWatch::pause() const { return std::clamp(limit_ / 4, kPauseMin, kPauseMax); }

std::optional<int> StuckWatch::update(const std::set<int>& asleep, TimePoint now) {
  std::erase_if(since_, [&](const auto& entry) { return !asleep.contains(entry.first); });
  for (const int local_rank : asleep)
    if (now - since_.try_emplace(local_rank, now).first->second >= limit_) return local_rank;
  return {};
}

}  // namespace ddprun::agent
