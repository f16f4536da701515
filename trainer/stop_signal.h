// SIGTERM to ranks that no launcher watches, as of a scheduler that preempts them: it asks all of them to save at the
// end of one and the same step, whichever of them gets it.
//
// They agree through their group's store, by a thread that looks there ten times a second (save_gate.h). Under ddprun
// the worker channel does that (worker.h), and under another agent SIGTERM ends a worker as ever: a peer may be dead.
#pragma once
#include <cstdint>
#include <memory>

#include "ddprun/process_group.h"

namespace ddprun::train {

// One at a time. For the training thread.
class StopSignal {
 public:
  explicit StopSignal(const ProcessGroup& group);  // from here on SIGTERM is ours
  ~StopSignal();                                   // and here it is as it was
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // `step` is done. Whether this is where all ranks save. Waits only while they agree; Error where they cannot, as one
  // of them is dead.
  bool reached(std::uint64_t step);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::train
