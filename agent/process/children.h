// The processes whose parent we are: workers, and their orphaned descendants, which become our children one level at a
// time as we are a child subreaper.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <vector>

namespace ddprun::agent {

// Dead ones are included until they are reaped. Empty if /proc is not available.
std::vector<pid_t> children();
bool children_can_be_found();
// The same of another process; its threads' children, too.
std::vector<pid_t> children_of(pid_t parent);
// And all that they have started in turn, as far as it is still theirs; some kStartedMax at most.
constexpr std::size_t kStartedMax = 256;
std::vector<pid_t> started_by(pid_t process);

// SIGKILLs children until none is left, reaping them. Only own, unreaped children are ever signalled, so no recycled
// pid can be hit.
class ChildSweep {
 public:
  // `spared`: children that must not be killed.
  explicit ChildSweep(std::vector<pid_t> spared = {});
  // True: none is left. Else call it again after a pause: there may be new orphans by then.
  bool step();
  std::chrono::microseconds pause() const { return pause_; }
  // After the last step: stuck in the kernel, not ours to kill, or dying.
  const std::vector<pid_t>& left() const { return left_; }

 private:
  std::vector<pid_t> spared_, left_;
  std::chrono::microseconds pause_;
};

constexpr std::chrono::milliseconds kEndLimit{10'000};  // the kernel may hold a dying process for seconds

// Repeats steps until none is left. Returns those that were still there at the limit.
std::vector<pid_t> end_all_children(std::chrono::milliseconds limit, std::vector<pid_t> spared = {});

}  // namespace ddprun::agent
