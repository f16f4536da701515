// The user's settings: command line, environment and configuration file become one Config and a list of mistakes.
//
// Precedence: command line, environment (PET_<OPTION>), file (--config), scheduler (scheduler/scheduler.h), default.
// Overridden values are not checked.
// A token comes from the file that --token-file names, or directly from DDPRUN_TOKEN. Pure: the environment, a file
// reader, a token generator and the host's name are passed in.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/process/worker_env.h"
#include "launcher/config/config.h"
#include "launcher/scheduler/node_address.h"

namespace ddprun::launcher {

struct FileText {
  std::string text;
  bool others_may_read = false;  // its group, or everybody
};
struct Unreadable {
  std::string why;  // "no such file or directory"
};

struct Inputs {
  agent::Environment environment = {};
  std::function<std::variant<FileText, Unreadable>(const std::string& path)> read_file = {};
  std::function<std::string()> make_token = {};
  std::function<std::string()> host_name = {};
  std::optional<NodeQuestions> node = {};  // scheduler/scheduler.h
  const char* commit = "unknown";          // of this program, for --version
};

struct CommandLine {
  std::string answer = {};  // for --help, --version, --make-token: print it and exit with 0; ignore the rest
  Config config = {};
  std::vector<std::string> warnings = {};  // one sentence each; the run continues
  std::vector<std::string> mistakes = {};  // one sentence each: what, where, how to fix
};

// `arguments` without the program's own name.
CommandLine read_command_line(const std::vector<std::string>& arguments, const Inputs& inputs);

}  // namespace ddprun::launcher
