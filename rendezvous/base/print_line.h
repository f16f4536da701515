// The only functions that write straight to stderr: where no log pipe exists yet or any more (before and after a job,
// in the keeper), and in `train`, which has no other way. What the agent reports while its job runs goes through its
// log pipes, and its steps through spdlog (agent/logs).
//
// The text may contain what a file, a peer or a worker wrote: control characters are escaped.
#pragma once
#include <cstdio>
#include <string>

#include "rendezvous/base/spelling.h"

namespace ddprun {

// "ddprun: cannot ..."; adds a line end. One write, as other processes write there, too.
inline void print_line(std::FILE* to, const std::string& text) { std::fputs((visible_lines(text) + "\n").c_str(), to); }
// The same for a text that has its line ends.
inline void print_text(std::FILE* to, const std::string& text) { std::fputs(visible_lines(text).c_str(), to); }

}  // namespace ddprun
