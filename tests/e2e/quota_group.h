// A control group below our own with a limit of CPU time.
#pragma once
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/process/control_groups.h"
#include "tests/support/command.h"

namespace ddprun::test {

// So many microseconds in each 100 ms. Not usable: none can be made.
class QuotaGroup {
 public:
  explicit QuotaGroup(int quota_us) {
    const auto own =
        ddprun::agent::control_groups("cpu", read_file("/proc/self/cgroup"), read_file("/proc/self/mountinfo"));
    if (own.empty()) return;
    const auto folder = std::filesystem::path(own.front().folder) / ("ddprun-test-" + std::to_string(getpid()));
    if (mkdir(folder.c_str(), 0755) != 0) return;
    folder_ = folder;
    usable_ = own.front().version1
                  ? put("cpu.cfs_period_us", "100000") && put("cpu.cfs_quota_us", std::to_string(quota_us))
                  : put("cpu.max", std::to_string(quota_us) + " 100000");
  }
  ~QuotaGroup() {
    if (!folder_.empty()) eventually([&] { return rmdir(folder_.c_str()) == 0; }, std::chrono::seconds(5));
  }
  QuotaGroup(const QuotaGroup&) = delete;
  QuotaGroup& operator=(const QuotaGroup&) = delete;
  bool usable() const { return usable_; }
  std::string processes() const { return folder_ / "cgroup.procs"; }

 private:
  bool put(const char* file, const std::string& value) const {
    std::ofstream out(folder_ / file);
    return static_cast<bool>(out << value << std::flush);
  }
  std::filesystem::path folder_;
  bool usable_ = false;
};

}  // namespace ddprun::test
