// The job's restart ledger: what each round's end was charged to, whether another round is allowed, and when.
//
// A value, held only by the coordinator. The same failure twice (same exit code or signal, whatever the rank) before
// any progress ends the job at once: a broken script should fail fast. So it does after hours, if nothing reports the
// workers' progress and both ended with the same last line of stderr. If the same failure returns after progress, the
// restart waits with exponential back-off and jitter, in case the cause (a full disk, a lost mount) comes and goes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round.h"

namespace ddprun::rendezvous {

struct RestartPolicy {
  int max_restarts = 3;
  // A round that lived this long after its last worker's exec counts as progress, if no worker reports its steps.
  Duration progress_after = std::chrono::seconds(10);
  Duration backoff_first = std::chrono::milliseconds(500);
  Duration backoff_max = std::chrono::seconds(30);
};

struct Ruling {
  std::optional<TimePoint> restart_at;  // empty: the job ends
  std::string reason;
  bool final = false;  // the worker's exit code says that no restart would help
};

class Ledger {
 public:
  // `record`: the previous coordinator's.
  explicit Ledger(const RestartPolicy& policy, std::uint64_t jitter_seed = 0, const LedgerRecord& record = {});
  // A worker failed. `progressed`: the round had made progress since its start. `last_line`: Failure::last_line.
  Ruling charge_failure(const ExitStatus& status, bool progressed, TimePoint now, const std::string& last_line = {});
  // A change of nodes ended a round, which is always allowed.
  void charge_lost_node() { ++record_.counts.lost_nodes; }
  void charge_preemption() { ++record_.counts.preemptions; }
  void charge_resize() { ++record_.counts.resizes; }
  const LedgerRecord& record() const { return record_; }
  const RestartCounts& counts() const { return record_.counts; }

 private:
  Duration backoff();

  RestartPolicy policy_;
  std::uint64_t jitter_state_;
  LedgerRecord record_;
};

}  // namespace ddprun::rendezvous
