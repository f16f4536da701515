// Which program the words after ddprun's own options start, and how.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "launcher/config.h"

namespace ddprun::launcher {

// What the file system says of a path.
struct FileKind {
  bool exists = false;
  bool folder = false;
  bool executable = false;
};

// Where programs are looked for. The edge fills it; `kind_of` is the only look at the disk.
struct Surroundings {
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
// PATH, else a name beside ddprun's own binary; a folder is never a program. A .py file or a file without run
// permission is given to `$PYTHON_EXEC -u` (default python3), anything else is exec'd. Throws UsageError, one sentence,
// where there is no such program.
Program find_program(const Config& config, const Surroundings& surroundings);

}  // namespace ddprun::launcher
