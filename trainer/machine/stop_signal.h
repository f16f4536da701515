// Handles SIGTERM without a launcher, for example from a scheduler that preempts the job: whichever rank gets it, all
// ranks save at the end of the same step.
//
// They agree through their group's store, which a thread polls ten times a second (save_gate.h). Under ddprun the
// worker channel does that (worker.h), and under another agent SIGTERM ends a worker at once: a peer may be dead.
#pragma once
#include <cstdint>
#include <memory>

#include "ddprun/process_group.h"

namespace ddprun::train {

// One at a time. Only the training thread uses it.
class StopSignal {
 public:
  explicit StopSignal(const ProcessGroup& group);  // takes over SIGTERM
  ~StopSignal();                                   // restores its handling
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // `step` is done. Returns whether all ranks save now. Waits only while they agree; throws Error if they cannot,
  // because one of them is dead.
  bool reached(std::uint64_t step);
  // The same at a further point after the last step; all ranks must have the same points.
  bool reached_between_steps();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::train
