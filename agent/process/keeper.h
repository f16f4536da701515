// Ensures that nothing ddprun started outlives it, however it ends: no privileges, no cgroup, no namespace needed.
//
// The process that users and schedulers see stays as the keeper; the agent is a child of it. Both are child
// subreapers, so whatever loses its parent, despite setsid and double fork, becomes a child of the agent while that
// lives, else of the keeper. If one of the two dies, the other ends every process below and exits (prctl(2),
// PR_SET_CHILD_SUBREAPER). A death also wakes the other with SIGCONT, in case it is stopped. Children that the process
// had before it became ddprun, by a shell's exec, do not belong to the job and live on. The keeper forwards signals and
// job control and exits with the agent's status, also if the kernel holds a thread of an agent that has told its exit
// code; its only other task is to remove one folder.
#pragma once
#include <filesystem>

namespace ddprun::agent {

// Call it in the first line of main, before any thread exists. Returns in the agent, with a pipe's end: when it becomes
// readable the keeper is dead, then call end_all_children() (children.h) and exit. Never returns in the keeper, which
// calls `in_keeper` once and starts no process, as that would have the pipe's other end.
int continue_under_keeper(void (*in_keeper)() = [] {});

// False under an emulator that does not know them: what loses its parent is then nobody's here, and outlives the job.
bool is_child_subreaper();

constexpr int kFromTerminal = 0x747479;  // sigqueue's value of a signal that the keeper has got from its terminal
constexpr int kKeeperDied = 70;          // the exit code of an agent that lost its keeper

// The folder of error files that the keeper removes if the agent dies before it can, unless a file is in it. Empty:
// none any more. Without a keeper it does nothing.
void let_keeper_remove(const std::filesystem::path& folder);

// The agent's last act if a thread of it may be in the kernel for good (a file system that does not answer): the keeper
// exits with this code without having reaped it. Without a keeper it does nothing.
void tell_keeper_of_exit(int code);

}  // namespace ddprun::agent
