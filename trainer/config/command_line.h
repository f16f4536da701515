// Parses the command line of `train` into options, and reports all mistakes at once.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/settings.h"

namespace ddprun::train {

// Output instead of a run: after --help, --version or --print-config (code 0, on stdout), or on mistakes (2, on
// stderr).
struct EarlyExit {
  int code;
  std::string text;
};

struct CommandLine {
  Options options;
  std::vector<settings::Setting> given;  // those in force
  std::optional<EarlyExit> early_exit;
};

// The content of a file; an exception whose what() says why not.
using ReadFile = std::function<std::string(const std::string& path)>;

// `arguments` are those after the program's name. Pure, except that `read_file` reads --config. `environment` has the
// variables that paths may name (launcher/settings/paths.h). `commit` is what --version names.
CommandLine read_command_line(std::vector<std::string> arguments, const ReadFile& read_file,
                              const std::map<std::string, std::string>& environment = {},
                              const std::string& commit = "unknown");

// Fills in defaults that depend on other options (the model's data, the data's model, an optimizer's learning rate) and
// returns contradictions as sentences.
std::vector<std::string> resolve_options(Options& options, const std::vector<settings::Setting>& given);

}  // namespace ddprun::train
