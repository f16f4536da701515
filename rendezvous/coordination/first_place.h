// Whether the agent at a job's first place begins to coordinate: a job has its first coordinator there, and one that
// goes on has another.
//
// A value without a clock. With one place it begins at once, as nobody else could tell; with several once all have been
// asked in a row and nobody there knew of a round. An agent that has followed a coordinator looks for the next one
// first, and one that has been in a round never begins: elections find the next coordinator.
#pragma once
#include <cstddef>
#include <optional>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round.h"

namespace ddprun::rendezvous {

// An agent that has lost its coordinator looks so long for another one (agent/agent.cpp).
constexpr std::chrono::seconds kLooksForJob{30};

class FirstPlace {
 public:
  explicit FirstPlace(std::size_t places) : places_(places) {}
  // This agent listens there, from now on.
  void take() { ours_ = true; }
  bool is_ours() const { return ours_; }
  // A place has been asked in vain; `known`: the newest round that somebody there knew of (round 0: none).
  void asked(const RecordId& known, TimePoint now);
  void connected();
  // `newest`: that this agent has seen itself.
  bool begins(const RecordId& newest, TimePoint now) const;

 private:
  std::size_t places_, in_vain_ = 0;
  bool ours_ = false, followed_ = false;
  std::optional<TimePoint> looks_since_;
};

}  // namespace ddprun::rendezvous
