// The processes whose parent we are: workers, and orphaned descendants of theirs, which come up to us one level at a
// time as we are a child subreaper.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <vector>

namespace ddprun::agent {

// The dead among them until they are reaped. Empty where /proc does not tell.
std::vector<pid_t> children();
bool children_can_be_found();

// SIGKILLs children until none is left, reaping them. Only own, unreaped children are ever signalled, so no recycled
// pid can be hit.
class ChildSweep {
 public:
  // `spared`: children that live on.
  explicit ChildSweep(std::vector<pid_t> spared = {});
  // True: none is left. Else call it again after a pause: orphans may have come up meanwhile.
  bool step();
  std::chrono::microseconds pause() const { return pause_; }
  // After the last step: stuck in the kernel, or not ours to kill, or dying.
  const std::vector<pid_t>& left() const { return left_; }

 private:
  std::vector<pid_t> spared_, left_;
  std::chrono::microseconds pause_;
};

constexpr std::chrono::milliseconds kEndLimit{10'000};  // the kernel may hold a dying process for seconds

// All of it at once. Returns those that were still there at the limit.
std::vector<pid_t> end_all_children(std::chrono::milliseconds limit, std::vector<pid_t> spared = {});

}  // namespace ddprun::agent
