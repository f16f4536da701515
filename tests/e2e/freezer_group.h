// A control group in which processes can be frozen, as on a machine that is suspended.
#pragma once
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/process/control_groups.h"
#include "tests/support/command.h"

namespace ddprun::test {

// Not usable: none can be made. What is in it has to end before it.
class FreezerGroup {
 public:
  FreezerGroup() {
    const auto own =
        ddprun::agent::control_groups("freezer", read_file("/proc/self/cgroup"), read_file("/proc/self/mountinfo"));
    if (own.empty()) return;
    const auto folder = std::filesystem::path(own.front().folder) / ("ddprun-frozen-" + std::to_string(getpid()));
    if (mkdir(folder.c_str(), 0755) != 0) return;
    folder_ = folder;
    version1_ = own.front().version1;
  }
  ~FreezerGroup() {
    if (!folder_.empty()) eventually([&] { return rmdir(folder_.c_str()) == 0; }, std::chrono::seconds(5));
  }
  FreezerGroup(const FreezerGroup&) = delete;
  FreezerGroup& operator=(const FreezerGroup&) = delete;
  bool usable() const { return !folder_.empty(); }
  // With all its threads; what it starts later is in it, too.
  void add(pid_t process) const { put("cgroup.procs", std::to_string(process)); }

  // Frozen as long as this lives: what is frozen could not be killed.
  class Frozen {
   public:
    explicit Frozen(const FreezerGroup& group) : group_(group) { group_.set(true); }
    ~Frozen() { group_.set(false); }
    Frozen(const Frozen&) = delete;
    Frozen& operator=(const Frozen&) = delete;

   private:
    const FreezerGroup& group_;
  };

 private:
  void set(bool frozen) const {
    if (version1_)
      put("freezer.state", frozen ? "FROZEN" : "THAWED");
    else
      put("cgroup.freeze", frozen ? "1" : "0");
  }
  void put(const char* file, const std::string& value) const { std::ofstream(folder_ / file) << value << std::flush; }

  std::filesystem::path folder_;
  bool version1_ = false;
};

}  // namespace ddprun::test
