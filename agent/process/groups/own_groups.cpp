#include "agent/process/groups/own_groups.h"

#include "agent/process/files/regular_file.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kTableMax = 1 << 20;

OwnGroups read_own_groups(const std::string& root) {
  const std::string cgroup = beginning_of_file(root + "/proc/self/cgroup", kTableMax),
                    mountinfo = beginning_of_file(root + "/proc/self/mountinfo", kTableMax);
  return {control_groups("cpu", cgroup, mountinfo), control_groups("memory", cgroup, mountinfo)};
}

}  // namespace

OwnGroups own_groups(const std::string& root) {
  static const OwnGroups kOurs = read_own_groups("");
  return root.empty() ? kOurs : read_own_groups(root);
}

}  // namespace ddprun::agent
