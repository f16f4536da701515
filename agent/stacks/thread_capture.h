// Takes the registers and the stack memory of each thread of a running process.
//
// A thread is stopped by ptrace for some 0.1 ms, one after the other, and goes on before anything is made of what was
// copied. One in a group stop (SIGSTOP) stays in it; a signal that arrives meanwhile is delivered. As after SIGSTOP and
// SIGCONT, the system calls that signal(7) names, epoll_wait() among them, may end with EINTR.
//
// A thread in uninterruptible sleep does not stop: it is left as it is, with what /proc says about it.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/stacks/process_stacks.h"

namespace ddprun::agent {

struct CapturedThread {
  ThreadStack about = {};                     // without frames
  std::vector<std::uint64_t> registers = {};  // numbered as DWARF does; empty: it was not stopped
  std::uint64_t pc = 0;
  std::uint64_t stack_begin = 0;  // the address of stack's first byte
  std::vector<std::byte> stack = {};
};

struct CapturedProcess {
  std::vector<CapturedThread> threads = {};  // the main thread first
  pid_t memory_of = 0;       // a thread that lives: /proc shows no memory of a main thread that has ended
  std::string missing = {};  // of all threads
  Duration longest_pause = Duration::zero();
};

// Calls ptrace in threads of its own: what could not be stopped is released when its tracing thread ends. May block for
// as long as the kernel holds the process's memory map. `deadline`: threads not reached by then are only named.
CapturedProcess capture(pid_t pid, std::size_t threads_max, TimePoint deadline);

}  // namespace ddprun::agent
