// Settings as words KEY=VALUE, the way hydra has them: lr=0.1, +optimizer.lr=0.1, trainer.max_epochs=10. Pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/settings/argv_parser.h"
#include "launcher/settings/option.h"

namespace ddprun::settings {

// The option that a key names: its key in a file, its name on the command line or another one (stands_for), or, under
// sections that the table does not have, the last part of its key. nullptr: none, or several.
const Option* find_override(const Table& table, const std::string& key);

// Removes such words from a command line, except those after "--" and those that are an option's value.
std::vector<std::string> take_overrides(const Table& table, std::vector<std::string>& words);

// Adds their settings, or what is wrong. Of several words of one option the last one counts.
void add_overrides(const Table& table, const std::vector<std::string>& overrides, ParseResult& parsed);

// Replaces each setting by another name (OptionExtras::stands_for) by the setting that it stands for. One of a flag
// that has no value for it stays. False beside another flag's true is no second setting: fp16=false bf16=true.
void resolve_other_names(const Table& table, std::vector<Setting>& settings);

}  // namespace ddprun::settings
