// What a person asks for: the command line, the environment and a configuration file, as one Config and every mistake.
//
// Precedence: command line, environment (PET_<OPTION>), file (--config), default. What is overridden is not looked at.
// A token comes in the file --token-file names or, as it is, in DDPRUN_TOKEN. Pure: the environment, the look at a file
// and the making of a token come in.
#pragma once
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "agent/process/worker_env.h"
#include "launcher/config.h"

namespace ddprun::launcher {

struct FileText {
  std::string text;
  bool others_may_read = false;  // its group, or everybody
};
struct Unreadable {
  std::string why;  // "no such file or directory"
};

struct Outside {
  agent::Environment environment = {};
  std::function<std::variant<FileText, Unreadable>(const std::string& path)> read_file = {};
  std::function<std::string()> make_token = {};
};

struct CommandLine {
  std::string answer = {};  // --help, --version, --make-token: print it and end with 0; then the rest does not matter
  Config config = {};
  std::vector<std::string> warnings = {};  // one sentence each, and all goes on
  std::vector<std::string> mistakes = {};  // one sentence each: what, where, how to mend
};

// `arguments` without the program's own name.
CommandLine read_command_line(const std::vector<std::string>& arguments, const Outside& outside);

}  // namespace ddprun::launcher
