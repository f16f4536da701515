// What the threads of a process were doing at one moment. Values, and their text.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct StackFrame {
  std::string function = {};  // "gloo::allreduce": without arguments and template arguments; empty: unknown
  std::string module = {};    // the file of the program or library; empty: none, as for code made at run time
  std::uint64_t address = 0;  // in the process; of a caller, where the call returns to
  std::uint64_t offset = 0;   // in the module, as addr2line takes it
};

struct ThreadStack {
  pid_t tid = 0;
  std::string name = {};  // what the program calls it (comm)
  char state = '?';       // 'R', 'S', 'D', ..., proc_pid_stat(5)
  std::string wait_channel =
      {};  // the kernel function in which it sleeps; empty if there is none or it is not readable
  bool main = false;
  std::vector<StackFrame> frames = {};  // the innermost function first
  std::string missing = {};             // why there are no frames, or no further ones
};

struct ProcessStacks {
  pid_t pid = 0;
  std::vector<ThreadStack> threads = {};  // the main thread first
  std::string python = {};                // the text of py-spy or pystack; empty: none
  std::string python_missing = {};        // why not, and where these were looked for; empty if it is no Python program
  std::string missing = {};               // what is missing of all threads, with the remedy
  Duration longest_pause = Duration::zero();  // at most so long was a thread of it stopped
};

// For a file: every thread with its frames, then what Python says. Control characters are escaped.
std::string to_text(const ProcessStacks& stacks);

}  // namespace ddprun::agent
