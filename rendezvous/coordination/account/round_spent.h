// What one node's agent has measured of a round, on its first worker that reports. A plain value.
#pragma once
#include <cstdint>
#include <optional>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/time_account.h"

namespace ddprun::rendezvous {

struct RoundSpent {
  bool reports = false;  // the worker has reported something; false: of the parts only `start` is known
  // Since the node got its seat. Each part counts from the end of the one before; the last three may alternate.
  Duration start = {};    // until the worker has attached its channel, or all workers have been exec'd
  Duration restore = {};  // until its first step began: data, snapshot, process group; and such phases later
  Duration train = {}, evaluate = {}, save = {};
  TimeKind doing = TimeKind::start;  // what the worker did when this was measured
  Duration since_progress = {};      // then: since its last step, phase, beat or snapshot
  Duration unfinished = {};          // then: of `train`, since its last step
  std::uint64_t steps = 0;           // done in this round
  // Numbers of the job's steps; `first_step` only if the program counts them itself.
  std::optional<std::uint64_t> first_step = {}, last_step = {}, snapshot_step = {};

  friend bool operator==(const RoundSpent&, const RoundSpent&) = default;
};

// How a round ended, as far as its times depend on it.
enum class RoundEnd : int {
  running,  // not yet
  well,     // its workers were done, or all could save first
  failure,  // what was done since the last step is lost
  hang,     // and nothing was done since the last progress
};

// The parts of a round that took `length`: they add up to it exactly. What `spent` does not explain goes to what the
// worker was doing while the round runs, and to its stop afterwards.
TimeAccount account_of(const RoundSpent& spent, Duration length, RoundEnd end);

// Its steps, if the program counts them itself.
std::optional<KeptSteps> kept_steps(const RoundSpent& spent);

}  // namespace ddprun::rendezvous
