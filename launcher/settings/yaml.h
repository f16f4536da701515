// Converts a file of settings from YAML to TOML, for a message: nested keys with values or lists, as such files have.
// Pure.
#pragma once
#include <string>

#include "launcher/settings/option.h"

namespace ddprun::settings {

// By the name's end.
bool is_yaml(const std::string& file_name);

// A file for --config with the same values, and a comment for each line that has none in it. Its keys are found as
// those of overrides are (overrides.h).
std::string toml_from_yaml(const Table& table, const std::string& text);

}  // namespace ddprun::settings
