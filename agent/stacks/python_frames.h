// The text of py-spy or pystack as values. Pure.
#pragma once
#include <string>
#include <vector>

namespace ddprun::agent {

struct PythonFrame {
  std::string function = {}, file = {};  // the file as the tool names it
  int line = 0;
};

struct PythonThread {
  std::string id = {};                   // the kernel's thread id, or for older Pythons that of pthread
  std::string name = {};                 // "MainThread"; empty: unknown
  std::vector<PythonFrame> frames = {};  // the innermost function first
};

// Reads what `py-spy dump` or `pystack remote` printed; lines of another form are left out.
std::vector<PythonThread> parse_python_stacks(const std::string& text);

// Of the standard library or of PyTorch, which users call, but do not write.
bool is_library(const PythonFrame& frame);

// "evaluate (train.py:40)"
std::string in_words(const PythonFrame& frame);

}  // namespace ddprun::agent
