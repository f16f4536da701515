// The command line of `train`: from words to what the run is to do, with everything that is wrong told at once.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/settings.h"

namespace ddprun::train {

// Nothing to train: after --help or --print-config (code 0, on stdout), or with what cannot be read (2, on stderr).
struct Leave {
  int code;
  std::string text;
};

struct CommandLine {
  Options options;
  std::vector<settings::Setting> given;  // those in force
  std::optional<Leave> leave;
};

// The content of a file; an exception whose what() says why not.
using ReadFile = std::function<std::string(const std::string& path)>;

// `arguments` are those after the program's name. Decides only, but for --config, which is read by `read_file`.
CommandLine read_command_line(std::vector<std::string> arguments, const ReadFile& read_file);

// What does not fit together, and what follows from something else: a model without data, data without a model, the
// learning rate that goes with an optimizer. Sentences.
std::vector<std::string> settle(Options& options, const std::vector<settings::Setting>& given);

}  // namespace ddprun::train
