// A control group (v2) for the workers, if we may create one: no process in it escapes cgroup.kill, whatever its
// session or parent and however fast it forks.
//
// Optional: keeper.h ends everything without it. It costs 0.25 ms for each job and 0.2 ms more for each worker (clone3
// without shared memory), so it must be requested. The kernel needs cgroup v2, alone or beside v1, and allows it only
// below our own group and if that is writable: as root, or in what systemd delegates.
#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "agent/process/process.h"

namespace ddprun::agent {

class Cgroup {
 public:
  // An empty one below our own; empty if that is not allowed. Also ends and removes those whose agent is dead.
  static std::optional<Cgroup> create();
  Cgroup(Cgroup&&) = default;
  Cgroup& operator=(Cgroup&&) = delete;
  // Removes the folder if it is empty; else the next run removes it.
  ~Cgroup();

  // For SpawnRequest::cgroup_fd.
  int fd() const { return folder_fd_.get(); }
  const std::filesystem::path& folder() const { return folder_; }
  // Sends SIGKILL to all in it at once. False if the kernel is older than 5.14.
  bool kill() const;
  // True when nothing in it runs; our children are still to be reaped. The kernel reports it up to 10 ms late: if all
  // become our children (keeper.h), reaping them is faster.
  bool wait_until_empty(std::chrono::milliseconds limit) const;

 private:
  Cgroup(std::filesystem::path folder, Fd folder_fd);
  static std::optional<Cgroup> adopt(const std::filesystem::path& folder);
  static void end_leftovers(const std::filesystem::path& parent);

  std::filesystem::path folder_;
  Fd folder_fd_;  // locked as long as its agent lives
};

// Our own group's folder, from /proc/self/mountinfo and /proc/self/cgroup. Empty: cgroup v2 is not available.
std::filesystem::path own_cgroup_folder(const std::string& mountinfo, const std::string& self_cgroup);

}  // namespace ddprun::agent
