// Whether the agent at a job's first place begins to coordinate: a new job has its first coordinator there, a running
// job has another one.
//
// A value without a clock. With one place it begins at once, as nobody else could know; with several, once attempts at
// all of them in a row have failed and nobody there knew of a round. An agent that has followed a coordinator looks for
// the next one first, and one that has been in a round never begins: elections find the next coordinator.
#pragma once
#include <cstddef>
#include <optional>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

// An agent that has lost its coordinator looks for another one for this long (agent/agent.cpp).
constexpr std::chrono::seconds kCoordinatorSearchLimit{30};

class FirstPlace {
 public:
  explicit FirstPlace(std::size_t places) : places_(places) {}
  // From now on this agent listens there.
  void take() { ours_ = true; }
  bool is_ours() const { return ours_; }
  // No coordinator was found at a place; `known`: the newest round known there (round 0: none).
  void on_failed_attempt(const RecordId& known, TimePoint now);
  void connected();
  // `newest`: the newest round that this agent itself has seen.
  bool should_begin(const RecordId& newest, TimePoint now) const;

 private:
  std::size_t places_, failed_attempts_ = 0;
  bool ours_ = false, followed_ = false;
  std::optional<TimePoint> searching_since_;
};

}  // namespace ddprun::rendezvous
