// Control groups below our own: with a limit of memory or CPU time, or in which processes can be frozen.
#pragma once
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/process/groups/control_groups.h"
#include "tests/support/command.h"

namespace ddprun::test {

// What is in it has to end before it.
class OwnGroup {
 public:
  ~OwnGroup() {
    if (!folder_.empty()) eventually([&] { return rmdir(folder_.c_str()) == 0; }, std::chrono::seconds(5));
  }
  OwnGroup(const OwnGroup&) = delete;
  OwnGroup& operator=(const OwnGroup&) = delete;
  bool usable() const { return usable_; }  // false: none can be made here
  std::string processes() const { return folder_ / "cgroup.procs"; }
  // With all its threads; what it starts later is in it, too.
  void add(pid_t process) const { put("cgroup.procs", std::to_string(process)); }

 protected:
  explicit OwnGroup(const std::string& controller) {
    const auto own =
        agent::control_groups(controller, read_file("/proc/self/cgroup"), read_file("/proc/self/mountinfo"));
    if (own.empty()) return;
    const auto name = "ddprun-test-" + controller + "-" + std::to_string(getpid());
    const auto folder = std::filesystem::path(own.front().folder) / name;
    if (mkdir(folder.c_str(), 0755) != 0) return;
    folder_ = folder;
    version1_ = own.front().version1;
    usable_ = true;
  }
  bool put(const char* file, const std::string& value) const {
    std::ofstream out(folder_ / file);
    return static_cast<bool>(out << value << std::flush);
  }

  std::filesystem::path folder_;
  bool version1_ = false, usable_ = false;
};

struct SmallGroup : OwnGroup {
  explicit SmallGroup(std::uint64_t bytes) : OwnGroup("memory") {
    if (!usable_) return;
    usable_ = put(version1_ ? "memory.limit_in_bytes" : "memory.max", std::to_string(bytes));
    for (const char* swap : {"memory.swappiness", "memory.swap.max"})
      if (std::filesystem::exists(folder_ / swap)) put(swap, "0");
  }
};

// So many microseconds in each 100 ms.
struct QuotaGroup : OwnGroup {
  explicit QuotaGroup(int quota_us) : OwnGroup("cpu") {
    const std::string quota = std::to_string(quota_us);
    if (usable_)
      usable_ = version1_ ? put("cpu.cfs_period_us", "100000") && put("cpu.cfs_quota_us", quota)
                          : put("cpu.max", quota + " 100000");
  }
};

// As on a machine that is suspended.
struct FreezerGroup : OwnGroup {
  FreezerGroup() : OwnGroup("freezer") {}
  void set(bool frozen) const {
    if (version1_)
      put("freezer.state", frozen ? "FROZEN" : "THAWED");
    else
      put("cgroup.freeze", frozen ? "1" : "0");
  }

  // Frozen as long as this lives: what is frozen could not be killed.
  struct Frozen {
    explicit Frozen(const FreezerGroup& group) : group_(group) { group_.set(true); }
    ~Frozen() { group_.set(false); }
    Frozen(const Frozen&) = delete;
    Frozen& operator=(const Frozen&) = delete;

   private:
    const FreezerGroup& group_;
  };
};

}  // namespace ddprun::test
