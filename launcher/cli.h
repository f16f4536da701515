// What a person asks for: the command line, the environment and a configuration file, as one Config and every mistake.
//
// Precedence: command line, environment (PET_<OPTION>), file (--config), default. What is overridden is not looked at.
// Pure: the environment and the look at a file come in.
#pragma once
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "agent/worker_env.h"
#include "launcher/config.h"

namespace ddprun {

struct FileText {
  std::string text;
};
struct Unreadable {
  std::string why;  // "no such file or directory"
};

struct Outside {
  Environment environment = {};
  std::function<std::variant<FileText, Unreadable>(const std::string& path)> read_file = {};
};

struct Asked {
  std::string answer = {};  // --help, --version: print it and end with 0; then the rest does not matter
  Config config = {};
  std::vector<std::string> mistakes = {};  // one sentence each: what, where, how to mend
};

// `arguments` without the program's own name.
Asked parse(const std::vector<std::string>& arguments, const Outside& outside);

}  // namespace ddprun
