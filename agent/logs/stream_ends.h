// What a worker writes to and the agent reads from: a pipe, or a terminal of its own where our console is one.
#pragma once
#include <cstddef>

#include "rendezvous/base/fd.h"

namespace ddprun::agent {

struct StreamEnds {
  Fd read, write;  // closed by exec
  bool terminal = false;
};

// Throws Error where none can be opened.
StreamEnds open_pipe();

// A terminal where `console_fd` is one and another can be had, else a pipe. The worker's bytes come out as they were
// written; `console_fd` may be -1.
StreamEnds open_like(int console_fd);

// Of the window, from one terminal to another.
void copy_size(int from_terminal, int to_terminal);
std::size_t columns_of(int terminal);  // 80 where it has no size

}  // namespace ddprun::agent
