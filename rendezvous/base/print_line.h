// Where a sentence of ours goes to a person, but for those of the agent, which pass its log pipes.
//
// It may hold what a file, a peer or a worker wrote: nothing of it acts on the terminal.
#pragma once
#include <cstdio>
#include <string>

#include "rendezvous/base/spelling.h"

namespace ddprun {

// "ddprun: cannot ..."; a line end is added. In one write, as other processes write there, too.
inline void print_line(std::FILE* to, const std::string& text) { std::fputs((visible_lines(text) + "\n").c_str(), to); }

}  // namespace ddprun
