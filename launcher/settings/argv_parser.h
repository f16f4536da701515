// Splits a command line into options with their values, and another program's words.
//
// Values are not parsed here, so that a wrong one does not hide the next mistake. Pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/settings/option.h"

namespace ddprun::settings {

struct ParseResult {
  std::vector<Setting> settings;      // in the order of the table; all occurrences of a repeated option, in order
  std::vector<std::string> program;   // if the table runs one: its name and arguments
  std::vector<std::string> mistakes;  // unknown and ambiguous options, missing values: one sentence each
};

// `arguments` without the program's own name. "--" ends the options. Names may be abbreviated if only one option starts
// so.
ParseResult parse_arguments(const Table& table, std::vector<std::string> arguments);

// Replaces each --set KEY=VALUE by the setting it names.
void expand_sets(const Table& table, ParseResult& parsed);

}  // namespace ddprun::settings
