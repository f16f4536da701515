// The words of a command line: which are options, with which values, and where another program's begin.
//
// Words only: values are not read here, so that a wrong one does not hide the next. Pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/settings/option.h"

namespace ddprun::settings {

struct ParseResult {
  std::vector<Setting> settings;      // in the order of the table; of a repeated option each, the last one last
  std::vector<std::string> program;   // of a table that runs one: its name and its arguments
  std::vector<std::string> mistakes;  // unknown and ambiguous options, missing values: one sentence each
};

// `arguments` without the program's own name. "--" ends the options. Names may be abbreviated as long as one option
// alone begins so.
ParseResult parse_arguments(const Table& table, std::vector<std::string> arguments);

// Replaces each --set KEY=VALUE by the setting it names.
void expand_sets(const Table& table, ParseResult& parsed);

}  // namespace ddprun::settings
