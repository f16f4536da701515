#include "trainer/loop/keep_interval.h"

#include <algorithm>
#include <cmath>

#include "trainer/config/options.h"

namespace ddprun::train {
namespace {

// The first steps are slower than the rest: libraries choose kernels, buckets are rebuilt. Later a busy host or disk
// may have changed what a snapshot costs.
constexpr std::int64_t kFirst = 16, kSecond = 128, kThen = 1024;

}  // namespace

KeepInterval::KeepInterval(std::int64_t chosen, bool on_gpu)
    : by_cost_(chosen == SavingOptions::kMemoryStepsByCost && on_gpu),
      steps_(chosen == SavingOptions::kMemoryStepsByCost ? 1 : chosen) {}

bool KeepInterval::is_agreed_after(std::int64_t done) const {
  return by_cost_ && (done == kFirst || done == kSecond || (done > 0 && done % kThen == 0));
}

std::int64_t KeepInterval::proposal(Seconds step, Seconds cost) const {
  const double steps = std::ceil(cost.count() / (kShareMax * std::max(step.count(), 1e-6)));
  return static_cast<std::int64_t>(std::clamp(steps, 1.0, static_cast<double>(kStepsMax)));
}

}  // namespace ddprun::train
