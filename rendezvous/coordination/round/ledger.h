// The job's restart ledger: what each round's end was charged to, whether another round is allowed, and when.
//
// A value, held only by the coordinator. The same failure twice (same exit code or signal, whatever the rank) before
// any progress ends the job at once: a broken script should fail fast. So it does after hours, if nothing reports the
// workers' progress and both ended with the same last line of stderr, but for numbers, or at the same age without any.
// If the same failure returns after progress, the restart waits with exponential back-off and jitter, in case the cause
// (a full disk, a lost mount) comes and goes.
//
// Every restart after a failure is a charge against a limit: --max-restarts for all classes together, or the class's
// own. A charge counts until its limit's time has passed or, where that has none, until progress has earned it back.
// Preemptions and joining nodes cost nothing.
//
// The record outlives a coordinator (in the round's record) and a start of the job (in --state-dir). In several starts
// in a row that end with the same failure before any progress, the last one says that no further start would help.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

struct RestartLimit {
  int most = 0;
  std::optional<Duration> within = {};  // empty: of the whole job

  friend bool operator==(const RestartLimit&, const RestartLimit&) = default;
};

constexpr auto kLimitWindowMax = std::chrono::hours(7 * 24);
constexpr int kLimitInWindowMax = 1'000;  // each is dated in the record

struct RestartPolicy {
  int max_restarts = 3;                              // of all classes without a limit of their own, together
  std::map<FailureClass, RestartLimit> limits = {};  // a lost node needs one to have any
  // What out of memory may take of max_restarts: workers that need too much once need it again.
  int out_of_memory_max = 1;
  // So much running with progress earns back one restart of each limit without a time. Empty: none is ever.
  std::optional<Duration> credit_after = std::chrono::hours(1);
  // A round that lived this long after its last worker's exec counts as progress, if no worker reports its steps.
  Duration progress_after = std::chrono::seconds(10);
  Duration backoff_first = std::chrono::milliseconds(500);
  Duration backoff_max = std::chrono::seconds(30);
  int futile_starts_max = 3;  // with the same failure, before any progress; counted with --state-dir
};

struct ChargedFailure {
  ExitStatus status = {};
  FailureClass kind = FailureClass::error;
  bool progressed = false;     // the round, since its start
  Duration ran = {};           // how long all its workers ran
  std::string last_line = {};  // Failure::last_line
  bool by_rule = false;        // a rule says restart: only limits can refuse it
  bool reported = false;       // workers have told of their progress
  bool cannot_begin = false;   // Failure::cannot_begin
};

struct Ruling {
  std::optional<TimePoint> restart_at = {};  // empty: the job ends
  std::string reason = {};
  bool final = false;  // nor would another start of the job help
};

class Ledger {
 public:
  // `record`: the previous coordinator's or start's, `age` ago.
  Ledger(const RestartPolicy& policy, TimePoint now, std::uint64_t jitter_seed = 0, const LedgerRecord& record = {},
         Duration age = {});
  // A worker failed.
  Ruling charge_failure(const ChargedFailure& failure, TimePoint now);
  // A round ran so long with progress, and ended without a failure.
  void credit(Duration ran);
  // A node was lost; always allowed, unless its class has a limit.
  Ruling charge_lost_node(TimePoint now);
  void charge_preemption();
  void charge_resize();
  // Of a node of this round. What earlier rounds have shown gives way.
  void learn(int round, const LearnedTimes& times);
  // A worker hung there, and was ended.
  void learn_hung_at(const std::string& place);
  // The job ended without a failure of its own.
  void end_without_failure();
  LedgerRecord record(TimePoint now) const;
  const RestartCounts& counts() const { return record_.counts; }
  // Grows with every change.
  int changes() const { return changes_; }

 private:
  struct Dated {
    FailureClass kind;
    int restarts;
    TimePoint at;
  };
  struct Pool {  // charges that count together
    std::optional<FailureClass> only;
    RestartLimit limit;
  };
  Pool pool_of(FailureClass kind) const;
  bool is_in(const Pool& pool, FailureClass kind) const;
  int used(const Pool& pool, TimePoint now) const;
  void charge(FailureClass kind, TimePoint now);
  // Why it is the failure of before, which another round would only repeat; or empty.
  std::string why_same(const ChargedFailure& failure) const;
  std::string why_ended(const ChargedFailure& failure, const std::string& same, TimePoint now) const;
  std::string why_used_up(FailureClass kind, TimePoint now) const;
  Ruling end(std::string reason, bool final);
  Duration backoff();

  RestartPolicy policy_;
  std::uint64_t jitter_state_;
  LedgerRecord record_;         // without its charges
  std::vector<Dated> charges_;  // oldest first
  int changes_ = 0;
  int learned_round_ = 0;
  std::optional<Duration> silent_after_;  // how long the last round ran, if it failed without a word; not in the record
};

// Nothing of the job concerns a further start.
bool ended_for_good(Verdict verdict);
// What the next start of the job begins with: after its own failure, with all restarts.
LedgerRecord for_next_start(LedgerRecord record, bool failed);

// "5", "5 in 1 h"
std::string to_text(const RestartLimit& limit);

}  // namespace ddprun::rendezvous
