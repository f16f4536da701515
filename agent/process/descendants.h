// The processes below others, whoever their parent is.
#pragma once
#include <sys/types.h>

#include <set>

namespace ddprun::agent {

// SIGKILLs all descendants of `ancestor`, and again what these have started meanwhile; not `spared`, nor those below
// them. A process that the kernel holds in its end gets its signal and may stay: its children are nobody's orphans
// while it does. Blocks for some milliseconds; reads /proc.
void kill_descendants(pid_t ancestor, const std::set<pid_t>& spared = {});

}  // namespace ddprun::agent
