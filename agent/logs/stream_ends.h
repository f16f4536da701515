// What a worker writes to and the agent reads from: a pipe, or a terminal of its own if our console is one.
#pragma once
#include <cstddef>

#include "rendezvous/base/fd.h"

namespace ddprun::agent {

struct StreamEnds {
  Fd read, write;  // closed by exec
  bool terminal = false;
};

// Throws Error if none can be opened.
StreamEnds open_pipe();

// A terminal if `console_fd` is one and another can be opened, else a pipe. It does not alter the worker's bytes.
// `console_fd` may be -1.
StreamEnds open_like(int console_fd);

// The window's size, from one terminal to another.
void copy_size(int from_terminal, int to_terminal);
std::size_t columns_of(int terminal);  // 80 if it has no size

}  // namespace ddprun::agent
