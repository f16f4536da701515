#include "agent/process/groups/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/process/files/file_content.h"
#include "agent/process/groups/control_groups.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

using std::chrono::milliseconds;

constexpr const char* kPrefix = "ddprun-";
constexpr milliseconds kLeftoverLimit{1'000};  // what takes longer to die is left to the next run

// The part of `path` below `root`; empty if it is outside.
std::optional<std::string> below(const std::string& path, const std::string& root) {
  if (path.empty() || path.find("/..") != std::string::npos) return {};
  if (root == "/") return path.substr(1);
  if (path.rfind(root, 0) != 0) return {};
  if (path.size() == root.size()) return std::string();
  return path[root.size()] == '/' ? std::optional(path.substr(root.size() + 1)) : std::nullopt;
}

bool is_populated(const std::string& events) { return events.find("populated 0") == std::string::npos; }

bool write_one(int folder, const char* name) {
  const Fd file(openat(folder, name, O_WRONLY | O_CLOEXEC));
  return file && write(file.get(), "1", 1) == 1;
}

}  // namespace

fs::path own_cgroup_folder(const std::string& mountinfo, const std::string& self_cgroup) {
  for (const CgroupMount& mount : cgroup_mounts("", mountinfo))
    if (const auto path = below(unified_path(self_cgroup), mount.root)) return fs::path(mount.folder) / *path;
  return {};
}

Cgroup::Cgroup(fs::path folder, Fd folder_fd) : folder_(std::move(folder)), folder_fd_(std::move(folder_fd)) {}

// Fails if its agent lives, which holds the lock.
std::optional<Cgroup> Cgroup::adopt(const fs::path& folder) {
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return {};
  return Cgroup(folder, std::move(fd));
}

void Cgroup::end_leftovers(const fs::path& parent) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored))
    if (entry.path().filename().string().rfind(kPrefix, 0) == 0) found.push_back(entry.path());
  for (const fs::path& folder : found)
    if (const auto leftover = adopt(folder); leftover && leftover->kill()) leftover->wait_until_empty(kLeftoverLimit);
}

std::optional<Cgroup> Cgroup::create() {
  const fs::path parent = own_cgroup_folder(file_content("/proc/self/mountinfo"), file_content("/proc/self/cgroup"));
  if (parent.empty() || access((parent / "cgroup.procs").c_str(), W_OK) != 0) return {};
  end_leftovers(parent);
  const fs::path folder =
      parent / (kPrefix + std::to_string(getpid()) + "-" + std::to_string(Clock::now().time_since_epoch().count()));
  if (mkdir(folder.c_str(), 0755) != 0) return {};
  return adopt(folder);
}

Cgroup::~Cgroup() {
  if (folder_fd_) rmdir(folder_.c_str());
}

bool Cgroup::kill() const { return write_one(folder_fd_.get(), "cgroup.kill"); }

bool Cgroup::wait_until_empty(milliseconds limit) const {
  const Fd events(openat(folder_fd_.get(), "cgroup.events", O_RDONLY | O_CLOEXEC));
  const TimePoint deadline = Clock::now() + limit;
  for (char text[128] = {}; events; std::fill(std::begin(text), std::end(text), '\0')) {
    if (pread(events.get(), text, sizeof text - 1, 0) <= 0) return false;
    if (!is_populated(text)) return true;
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    pollfd change{events.get(), POLLPRI, 0};
    if (left <= milliseconds(0) || poll(&change, 1, static_cast<int>(left.count())) <= 0) return false;
  }
  return false;
}

}  // namespace ddprun::agent
