#include "rendezvous/ledger.h"

#include <algorithm>

namespace ddprun {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): a value, so that equal seeds give equal runs.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::string count_of(int used, int allowed) { return std::to_string(used) + " of " + std::to_string(allowed); }

}  // namespace

Ledger::Ledger(const RestartPolicy& policy, std::uint64_t jitter_seed) : policy_(policy), jitter_state_(jitter_seed) {}

Ruling Ledger::charge_failure(const ExitStatus& status, bool progressed, TimePoint now) {
  const bool same_again = last_ && *last_ == status;
  repeats_ = same_again ? repeats_ + 1 : 0;
  last_ = status;
  if (policy_.max_restarts == 0) return {{}, "no restarts are allowed (--max-restarts 0)"};
  if (status.start_error != 0) return {{}, "it could not be started"};
  if (same_again && !progressed) return {{}, "the same failure twice in a row before any progress"};
  if (counts_.spent() == policy_.max_restarts)
    return {{}, "all restarts are used up (" + count_of(counts_.spent(), policy_.max_restarts) + ")"};
  ++(status.hung ? counts_.hangs : counts_.crashes);
  return {now + (repeats_ > 0 ? backoff() : Duration::zero()),
          "restart " + count_of(counts_.spent(), policy_.max_restarts)};
}

Duration Ledger::backoff() {
  const Duration full = policy_.backoff_first * (1 << std::min(repeats_ - 1, 16));
  const double jitter = 0.5 + static_cast<double>(next_random(jitter_state_) >> 11) / static_cast<double>(1ull << 53);
  return std::chrono::duration_cast<Duration>(std::min(full, policy_.backoff_max) * jitter);
}

}  // namespace ddprun
