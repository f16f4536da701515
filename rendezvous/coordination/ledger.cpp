#include "rendezvous/coordination/ledger.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/random.h"
#include "rendezvous/channel/worker_exit.h"

namespace ddprun::rendezvous {
namespace {

std::string count_of(int used, int allowed) { return std::to_string(used) + " of " + std::to_string(allowed); }

// Empty if its exit code leaves the decision to the ledger.
std::string why_final(const ExitStatus& status, bool progressed) {
  if (status.signal != 0 || status.start_error != 0 || status.hung) return {};
  if (status.code == kWorkerFinal)
    return "exit code " + std::to_string(kWorkerFinal) + " says that a restart would only do the same again";
  if (status.code == kWorkerUsage && !progressed)
    return "exit code " + std::to_string(kWorkerUsage) +
           " before any progress is a usage error, which no restart mends";
  return {};
}

}  // namespace

Ledger::Ledger(const RestartPolicy& policy, std::uint64_t jitter_seed, const LedgerRecord& record)
    : policy_(policy), jitter_state_(jitter_seed), record_(record) {}

Ruling Ledger::charge_failure(const ExitStatus& status, bool progressed, TimePoint now, const std::string& last_line) {
  const bool same_again = record_.last_failure == status;
  const bool same_line = same_again && !last_line.empty() && record_.last_line == last_line;
  record_.repeats = same_again ? record_.repeats + 1 : 0;
  record_.last_failure = status;
  record_.last_line = last_line;
  if (std::string why = why_final(status, progressed); !why.empty()) return {{}, std::move(why), true};
  if (policy_.max_restarts == 0) return {{}, "no restarts are allowed (--max-restarts 0)"};
  if (status.start_error != 0) return {{}, "it could not be started"};
  if (status.stuck) return {{}, "new workers would wait for the same device or file server"};
  if (same_again && !progressed) return {{}, "the same failure twice in a row before any progress"};
  if (same_line) return {{}, "the same failure twice in a row, with the same last line of stderr"};
  if (record_.counts.spent() == policy_.max_restarts)
    return {{}, "all restarts are used up (" + count_of(record_.counts.spent(), policy_.max_restarts) + ")"};
  ++(status.hung ? record_.counts.hangs : record_.counts.crashes);
  return {now + (record_.repeats > 0 ? backoff() : Duration::zero()),
          "restart " + count_of(record_.counts.spent(), policy_.max_restarts)};
}

Duration Ledger::backoff() {
  const Duration full = policy_.backoff_first * (1 << std::min(record_.repeats - 1, 16));
  const double jitter = 0.5 + static_cast<double>(next_random(jitter_state_) >> 11) / static_cast<double>(1ull << 53);
  return std::chrono::duration_cast<Duration>(std::min(full, policy_.backoff_max) * jitter);
}

}  // namespace ddprun::rendezvous
