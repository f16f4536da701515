// Finds the program to start, from the words after ddprun's own options.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "launcher/config.h"

namespace ddprun::launcher {

// The kind of file at a path.
struct FileKind {
  bool exists = false;
  bool folder = false;
  bool executable = false;
};

// Where programs are searched. `kind_of` reads the disk.
struct SearchContext {
  std::string path;         // $PATH
  std::string own_folder;   // of ddprun's binary
  std::string python_exec;  // $PYTHON_EXEC, or empty
  std::function<FileKind(const std::string&)> kind_of;
};

// The Python that runs scripts.
struct Interpreter {
  std::string path;  // empty: there is none
  std::string why;   // "by PYTHON_EXEC"; of none: "there is no python3 in PATH"
};

// $PYTHON_EXEC; else the python3 of the virtual or conda environment in whose bin folder ddprun lies, as a script of
// that environment would get; else the first python3 in PATH.
Interpreter find_interpreter(const SearchContext& context);

// "Python: /venv/bin/python3, of the virtual environment that ddprun is in."
std::string described(const Interpreter& interpreter);

struct Program {
  std::string path;  // to exec
  std::vector<std::string> argv;
  bool by_python = false;  // `path` is the interpreter
};

// A word with a slash is a path. Without one it is a file here that ends in .py or is not executable, else a name in
// PATH, else a name in the folder of ddprun's own binary; never a folder. A .py file or a file without execute
// permission is run by find_interpreter()'s Python with -u, anything else is exec'd. Throws UsageError, one sentence,
// if there is no such program.
Program find_program(const Config& config, const SearchContext& context);

}  // namespace ddprun::launcher
