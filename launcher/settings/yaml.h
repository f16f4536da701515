// Converts a file of settings from YAML to TOML: nested keys with values or lists, as such files have. Pure.
#pragma once
#include <string>

#include "launcher/settings/option.h"

namespace ddprun::settings {

// By the name's end.
bool is_yaml(const std::string& file_name);

// Where only TOML is read: says so, and the line that converts the file.
std::string yaml_refusal(const std::string& file_name, const char* program);

// A file for --config with the same values, and a comment for each line that has none in it. Its keys are found as
// those of overrides are (overrides.h). Or by their whole names, and what is no option stays as it is: a job's file has
// more keys.
enum class OtherKeys { are_left_out, stay };
std::string toml_from_yaml(const Table& table, const std::string& text, OtherKeys other_keys = OtherKeys::are_left_out);

}  // namespace ddprun::settings
