#include "agent/hang/use_meter.h"

#include <algorithm>

namespace ddprun::agent {
namespace {

// Less than what threads take that only look at the clock, as those of collectives do.
constexpr double kStillProcessors = 0.02, kStillBytesPerSecond = 4096;

double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

double processors(const UseSample& before, const UseSample& now) {
  const double time = seconds_of(now.at - before.at);
  // What a process that has ended had used is in no sum any more.
  return time > 0 ? std::max(0.0, now.cpu_s - before.cpu_s) / time : 0;
}

bool moved(const UseSample& before, const UseSample& now) {
  const double time = seconds_of(now.at - before.at);
  return now.cpu_s < before.cpu_s || processors(before, now) >= kStillProcessors ||
         (now.bytes - before.bytes) / time >= kStillBytesPerSecond;
}

}  // namespace

void UseMeter::add(int local_rank, const UseSample& sample) {
  const auto known = seen_.find(local_rank);
  if (known == seen_.end()) return void(seen_.emplace(local_rank, Seen{sample, sample, sample.at}));
  Seen& seen = known->second;
  if (sample.at <= seen.last.at) return;
  if (moved(seen.last, sample)) seen.still_since = sample.at;
  seen.before = seen.last;
  seen.last = sample;
}

WorkerUse UseMeter::use(int local_rank, const UseSample& now) const {
  const auto known = seen_.find(local_rank);
  if (known == seen_.end()) return {.memory = now.memory};
  const Seen& seen = known->second;
  const UseSample& since = now.at - seen.last.at >= kUseWindow ? seen.last : seen.before;
  WorkerUse out{.memory = now.memory};
  if (now.at > since.at) out.processors = processors(since, now);
  if (seen.last.at > seen.still_since && now.at > since.at && !moved(since, now)) out.still = now.at - seen.still_since;
  return out;
}

bool UseMeter::to_be_told(const std::vector<int>& local_ranks, TimePoint now) {
  const auto is_still = [&](int local_rank) {
    const auto seen = seen_.find(local_rank);
    return seen != seen_.end() && now - seen->second.still_since >= kAllStillLimit;
  };
  if (told_ || local_ranks.empty() || !std::all_of(local_ranks.begin(), local_ranks.end(), is_still)) return false;
  return told_ = true;
}

}  // namespace ddprun::agent
