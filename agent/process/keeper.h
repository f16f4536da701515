// Sees to it that nothing ddprun started outlives it, however it ends: no privileges, no cgroup, no namespace needed.
//
// The process that people and schedulers see stays outside as the keeper; the agent goes on in a child of it. Both are
// child subreapers, so whatever loses its parent, setsid and double fork or not, becomes a child of the agent while
// that lives, else of the keeper. Whichever of the two dies, the other ends every process below and leaves. (prctl(2),
// PR_SET_CHILD_SUBREAPER.) A death also wakes the other with SIGCONT, should somebody have stopped it. Children that
// the process had before it became ddprun, by a shell's exec, are not the job's and live on. The keeper forwards
// signals and job control and ends with the agent's status; it knows nothing else but one folder to remove.
#pragma once
#include <filesystem>

namespace ddprun::agent {

// Call it at the first line of main, before any thread exists. Returns in the agent, with the pidfd of the keeper: when
// it becomes readable the keeper is dead, then call end_all_children() (children.h) and leave. Never returns in the
// keeper, which calls `in_keeper` once.
int continue_under_keeper(void (*in_keeper)() = [] {});

constexpr int kKeeperDied = 70;  // the exit code of an agent that lost its keeper

// What the keeper sees to should the agent die before it can: this folder of error files, which goes unless one lies in
// it. Empty: none any more. Without a keeper it does nothing.
void leave_to_keeper(const std::filesystem::path& folder);

}  // namespace ddprun::agent
