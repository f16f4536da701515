// What an agent measures for its metrics alone: times of rounds and steps, and counts of failures and of the store's
// requests, since its start. A value.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/status/histogram.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/failure_class.h"

namespace ddprun::agent {

// From an evaluation in Python to a large model's, and from a start in process to one that waits for machines.
inline constexpr std::array kStepBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                           0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};
inline constexpr std::array kRoundBounds = {0.01, 0.025, 0.05, 0.1,  0.25, 0.5,   1.0,
                                            2.5,  5.0,   10.0, 30.0, 60.0, 300.0, 1800.0};

// The requests of a round's store.
struct StoreUse {
  std::vector<std::pair<const char*, std::uint64_t>> requests = {};  // by operation
  std::size_t connections = 0;                                       // now
};

class JobMeasures {
 public:
  // This node offers itself for a round; without effect while it waits for one.
  void waits_for_round(TimePoint now);
  // `cause`: of the end of this node's round, as in ddprun_restarts_total; the recovery begins.
  void round_ended(const std::string& cause, TimePoint now);
  void workers_run(TimePoint now);
  void failed(rendezvous::FailureClass kind) { ++failures_[kind]; }
  // What a worker has done in this round, of which the time was `in_steps`; always the same worker.
  void steps_done(std::uint64_t steps, Duration in_steps);

  const Histogram& round_form() const { return round_form_; }
  const Histogram& steps() const { return steps_; }
  const std::map<std::string, Histogram>& recoveries() const { return recoveries_; }
  std::uint64_t failures(rendezvous::FailureClass kind) const;

  Duration snapshot_stall = {};                 // saving, of the first worker that reports
  std::optional<std::uint64_t> oom_kills = {};  // by the kernel, in our control group or on the machine
  StoreUse store = {};                          // of the stores that this node has served

 private:
  struct Recovery {
    std::string cause;
    TimePoint since;
  };
  Histogram round_form_{kRoundBounds}, steps_{kStepBounds};
  std::map<std::string, Histogram> recoveries_;
  std::map<rendezvous::FailureClass, std::uint64_t> failures_;
  std::optional<TimePoint> waits_since_;
  std::optional<Recovery> recovery_;
  std::uint64_t steps_seen_ = 0;  // in this round
  Duration in_steps_seen_ = {};
};

}  // namespace ddprun::agent
