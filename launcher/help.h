// --help and --version: screens of at most 24 lines of 80 columns, made from the option table. Pure.
#pragma once
#include <string>

namespace ddprun {

struct OptionRow;

// The options most needed and the names of the groups; or, given a group's name or its first letters, all of the group.
std::string help_text(const std::string& group = "");
std::string version_text();
const char* version();  // "0.1.0"

// "-r, --redirects SPEC"
std::string option_heading(const OptionRow& row);
// Its sentence with the default behind it.
std::string option_sentence(const OptionRow& row);

}  // namespace ddprun
