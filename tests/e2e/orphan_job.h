// A job whose workers make descendants (descendants.h), and a look at what is left of it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/e2e/descendants.h"
#include "tests/support/command.h"

namespace ddprun::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
// What is left after that is left for good. A sanitizer takes its time at a process's end.
constexpr std::chrono::seconds kGoneWithin{kSanitized ? 5 : 1};

struct OrphanPlan {
  std::vector<std::string> options = {};  // of ddprun; % in them is a name that no other job has
  std::vector<std::string> kinds = kAllKinds;
  std::string then = "wait";
  int workers = 2;
  std::vector<std::string> before = {};  // words before ddprun
  bool terminal = false;
};

// Whatever a test finds left is ended with this object.
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
  pid_t agent() const;           // 0 where it is not there yet
  pid_t worker(int rank) const;  // itself, none of its descendants; 0 where it is not there yet

  // All workers of round 1 have said so; what they say: descendants.h.
  void wait_until(const std::string& said);
  // The file that workers wait for.
  void go_on() const { folder_.write("go", ""); }
  // What has not gone in time, by name: empty.
  std::string left();

 private:
  std::vector<std::string> words() const;

  TempFolder folder_;
  OrphanPlan plan_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  Command command_;
};

pid_t first_child_of(pid_t process);  // of its main thread; 0: none

// Without a pause between two looks, for what lasts microseconds. Throws after kLimit.
void look_until(const std::function<bool()>& yes);

// So that hardly ever the one sees the other die.
void kill_both(pid_t keeper, pid_t agent);

}  // namespace ddprun::test
