#include "launcher/chaos/chaos_plan.h"

#include <utility>

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;
using rendezvous::FaultKind;

constexpr auto kUnit = 100ms;

// In units. Some are shorter and some longer than what the job waits for: a lease, a hang's limit.
struct Times {
  std::uint64_t least = 0, most = 0;
};
Times times_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::stop:
      return {20, 150};
    case FaultKind::cut:
      return {10, 120};
    case FaultKind::slow:
    case FaultKind::disk:
      return {30, 120};
    default:
      return {};
  }
}

}  // namespace

ChaosPlan::ChaosPlan(std::uint64_t seed, std::vector<FaultKind> kinds) : random_(seed), kinds_(std::move(kinds)) {}

ChaosPlan::Item ChaosPlan::next() {
  if (left_.empty()) left_ = kinds_;
  const std::size_t at = random_() % left_.size();
  const FaultKind kind = left_[at];
  left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(at));
  const auto target = static_cast<std::uint32_t>(random_());
  const Times times = times_of(kind);
  const std::uint64_t units = times.least + random_() % (times.most - times.least + 1);
  return {kind, target, units * kUnit};
}

rendezvous::Fault ChaosPlan::Item::of_job(int world_size) const {
  return {kind, static_cast<int>(target % static_cast<std::uint32_t>(world_size)), time};
}

}  // namespace ddprun::launcher
