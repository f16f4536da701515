// Texts made from the table: help screens, the manual page's options, completions. Pure.
#pragma once
#include <string>

#include "launcher/settings/option.h"

namespace ddprun::settings {

// "-r, --redirects SPEC" and "into files: ... (default 0)".
std::string option_heading(const Option& option);
std::string option_sentence(const Table& table, const Option& option);

// "  --max-restarts N         how often ...", wrapped; a long heading gets its own line.
std::string help_entry(const std::string& heading, const std::string& sentence, std::size_t column = 27);
// Each line wrapped, but for those that begin with a space; ends with a newline.
std::string help_paragraphs(const std::string& text);
// All options of a group.
std::string help_entries(const Table& table, const Group& group);
// The group whose name starts with `name`; nullptr: none.
const Group* find_group(const Table& table, const std::string& name);

// The options by group, as roff.
std::string manual_entries(const Table& table);

// A script for "bash", "zsh" or "tcsh"; empty for another shell.
std::string completion(const Table& table, const std::string& shell);

}  // namespace ddprun::settings
