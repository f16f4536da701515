// Spawns workers and reaps them. Linux only: child_process.h says by what they are known.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/child_process.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

struct PassedFd {
  int fd = -1;     // stays the caller's
  int number = 3;  // in the worker
};

struct SpawnRequest {
  std::string program;  // a path, already looked up
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  // For spawn() alone: what others have as well, before its own. Stays the caller's.
  const std::vector<std::string>* common_environment = nullptr;
  int stdin_fd = 0, stdout_fd = 1, stderr_fd = 2;  // stay the caller's
  std::vector<PassedFd> passed = {};               // all other descriptors are closed in the worker
  // Empty: the worker leads a session of its own. Else it joins this process group, to stay in the terminal's
  // foreground.
  std::optional<pid_t> foreground_group = {};
  std::vector<int> cpus = {};          // the only ones it may run on; empty: ours
  std::vector<int> memory_nodes = {};  // preferred nodes of its memory; empty: the kernel's choice
  bool core_dumps = false;             // up to the hard limit; false: none, as they delay every end
  int cgroup_fd = -1;                  // the open folder of the cgroup (v2) it is born in; -1: ours
};

struct Spawned {
  pid_t pid = 0;
  Fd fd;                  // child_process.h
  int error = 0;          // errno of the exec, or of clone: then nothing was started
  int binding_error = 0;  // errno if its CPUs could not be set: it runs on ours

  ChildProcess child() const { return {pid, fd.get()}; }
};

// Call it only from the agent's main thread: the worker gets SIGKILL when the thread that spawned it ends
// (PR_SET_PDEATHSIG). The worker starts with default signal dispositions and an oom_score_adj 300 higher, so that
// the kernel picks it before the agent. Costs 0.2 ms, little more than posix_spawn, and nothing that grows with our
// size; 0.2 ms more with a cgroup.
Spawned spawn(const SpawnRequest& request);

// The exit status of a child that has ended. It is not reaped.
std::optional<rendezvous::ExitStatus> end_of(const ChildProcess& child);

// The same, and it is reaped. `group`: first SIGKILL what is left of
// this process group, while its id cannot be reused.
std::optional<rendezvous::ExitStatus> reap(const ChildProcess& child, pid_t group);

// Reaps ended children but for `spared`, which are left to reap().
void reap_orphans(const std::vector<pid_t>& spared);

}  // namespace ddprun::agent
