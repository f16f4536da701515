// What a process is doing in the kernel, from /proc/<pid>.
#pragma once
#include <sys/types.h>

#include <string>

namespace ddprun::agent {

struct ProcessState {
  char letter = '?';       // 'D': it sleeps in the kernel and takes no signal, proc(5); '?': unknown
  std::string where = {};  // the kernel function in which it sleeps; empty if not readable
};

ProcessState process_state(pid_t pid);

// Why it is still there after SIGKILL: "the kernel holds it in rpc_wait_bit_killable, often a driver or ...".
std::string survival_in_words(const ProcessState& state);

}  // namespace ddprun::agent
