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

// Where programs are searched. `kind_of` and `first_line_of` read the disk.
struct SearchContext {
  std::string path;         // $PATH
  std::string own_folder;   // of ddprun's binary
  std::string python_exec;  // $PYTHON_EXEC, or empty
  std::function<FileKind(const std::string&)> kind_of;
  std::function<std::string(const std::string&)> first_line_of = {};
};

struct Program {
  std::string path;  // to exec
  std::vector<std::string> argv;
  bool wrapper = false;  // a shell, or a program that starts another one: the rank is its child
};

// A word with a slash is a path. Without one it is a file here that ends in .py or is not executable, else a name in
// PATH, else a name in the folder of ddprun's own binary; never a folder. A .py file or a file without execute
// permission is run by `$PYTHON_EXEC -u` (default python3), anything else is exec'd. Throws UsageError, one sentence,
// if there is no such program.
Program find_program(const Config& config, const SearchContext& context);

}  // namespace ddprun::launcher
