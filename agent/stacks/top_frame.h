// What a process hangs in, in one line, out of its stacks. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "agent/stacks/process_stacks.h"

namespace ddprun::agent {

struct TopFrame {
  // The innermost function of the main thread that is the user's: "evaluate (train.py:40)" or "Model::forward". Where
  // all of them are a library's, the innermost that is not of the C or C++ library.
  std::string function = {};
  std::string module = {};  // the Python file, or the program or library
  bool in_collective = false;
  std::string collective = {};  // "allreduce", "barrier", ...; "collective" if its name is unknown; empty: in none
};

// Python's functions count before native ones. Empty: the main thread has no frames.
std::optional<TopFrame> top_frame(const ProcessStacks& stacks);

// By which one sees whether it gets on: the innermost first, Python's if they are known, without those of an
// interpreter and of what everything waits in. Empty: none is known.
std::vector<std::string> functions_of_main_thread(const ProcessStacks& stacks);

// "in evaluate (train.py:40)", "in an allreduce, called by evaluate (train.py:40)"
std::string in_words(const TopFrame& frame);

}  // namespace ddprun::agent
