// The one place where a sentence of ours goes to stderr at once, past everything else: where nothing carries it yet or
// any more (before and after a job, in the keeper), and in `train`, which has only this. What the agent tells while its
// job runs goes through its log pipes, and its steps through spdlog (agent/logs).
//
// The text may hold what a file, a peer or a worker wrote: nothing of it acts on the terminal.
#pragma once
#include <cstdio>
#include <string>

#include "rendezvous/base/spelling.h"

namespace ddprun {

// "ddprun: cannot ..."; a line end is added. In one write, as other processes write there, too.
inline void print_line(std::FILE* to, const std::string& text) { std::fputs((visible_lines(text) + "\n").c_str(), to); }
// The same for a text that has its line ends.
inline void print_text(std::FILE* to, const std::string& text) { std::fputs(visible_lines(text).c_str(), to); }

}  // namespace ddprun
