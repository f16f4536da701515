// A job whose workers start descendants (descendants.h), and what is left of it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/e2e/descendants.h"
#include "tests/support/command.h"
#include "tests/support/sanitized.h"
#include "tests/support/soak.h"

namespace ddprun::test {

// Processes alive after this time count as left behind: a busy machine may stop ddprun for seconds. A soak is exact.
inline std::chrono::seconds gone_within() { return std::chrono::seconds(soaking() ? 1 : 10); }

struct OrphanPlan {
  std::vector<std::string> options = {};  // of ddprun; % in them stands for a unique name
  std::vector<std::string> kinds = kAllKinds;
  std::string then = "wait";
  int workers = 2;
  std::vector<std::string> before = {};  // arguments before ddprun
  bool terminal = false;
};

// The destructor ends whatever is left.
class OrphanJob {
 public:
  explicit OrphanJob(const OrphanPlan& plan);
  ~OrphanJob();

  Command& command() { return command_; }
  std::chrono::steady_clock::time_point started() const { return started_; }
  int workers() const { return plan_.workers; }
  std::string folder() const { return folder_.path(); }
  std::string name() const { return folder_.path().filename(); }  // what % stands for
  pid_t keeper() const { return command_.pid(); }
  pid_t agent() const;           // 0 if not started yet
  pid_t worker(int rank) const;  // without its descendants; 0 if not started yet

  // Waits until all workers of round 1 have printed it (descendants.h).
  void wait_until(const std::string& said);
  // Makes the file that workers wait for.
  void go_on() const { folder_.write("go", ""); }
  // Names of the processes that have not ended in time: empty if none.
  std::string left();

 private:
  std::vector<std::string> words() const;

  TempFolder folder_;
  OrphanPlan plan_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  Command command_;
};

pid_t first_child_of(pid_t process);  // of its main thread; 0: none

// Polls without a pause, for states that last microseconds. Throws after kLimit.
void poll_until(const std::function<bool()>& yes);

// So fast that one hardly ever sees the other die.
void kill_both(pid_t keeper, pid_t agent);

}  // namespace ddprun::test
