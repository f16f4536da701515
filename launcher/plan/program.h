// Finds the program to start, from the words after ddprun's own options.
#pragma once
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/plan/interpreter.h"

namespace ddprun::launcher {

struct Program {
  std::string path;  // to exec
  std::vector<std::string> argv;
  bool by_python = false;  // `path` is the interpreter
};

// A word with a slash is a path. Without one it is a file here that is for Python, else a name in PATH, else a name in
// the folder of ddprun's own binary, else a folder here that is for Python. For find_interpreter()'s Python, with -u,
// are: a .py file, a file without run permission (also an archive that holds __main__.py), a .pyz or .pyc file without
// a first line #!, and a folder with __main__.py. Anything else is exec'd. Throws UsageError, one sentence, if there is
// no such program.
Program find_program(const Config& config, const SearchContext& context);

}  // namespace ddprun::launcher
