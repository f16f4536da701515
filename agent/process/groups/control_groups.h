// Where the control groups of this process are, by /proc/self/cgroup and /proc/self/mountinfo. Pure.
#pragma once
#include <string>
#include <vector>

namespace ddprun::agent {

// A mounted hierarchy: the group `root` is seen at `folder`.
struct CgroupMount {
  std::string root, folder;
};
// Version 1's mounts of a controller such as "memory", or with "" those of version 2.
std::vector<CgroupMount> cgroup_mounts(const std::string& controller, const std::string& mountinfo);

struct ControlGroup {
  std::string folder, name;
  bool version1 = false;
};
// The groups whose limits for this controller apply to us: our own first, then its ancestors as far as they are
// mounted.
std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& cgroup,
                                         const std::string& mountinfo);

// Our group's path in version 2; empty: none.
std::string unified_path(const std::string& cgroup);

}  // namespace ddprun::agent
