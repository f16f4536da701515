// The control groups that limit this process. Found once: a long list of mounts costs a container's launch and rounds
// time, and ddprun stays where it was started.
#pragma once
#include <string>
#include <vector>

#include "agent/process/groups/control_groups.h"

namespace ddprun::agent {

struct OwnGroups {
  std::vector<ControlGroup> cpu, memory;  // our own first, then its ancestors
};

// `root`: another prefix of /proc, for tests, which is read each time; "": none.
OwnGroups own_groups(const std::string& root);

}  // namespace ddprun::agent
