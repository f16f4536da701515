// The one table of ddprun's options. Parsing, environment twins, help, man page, completions, the keys of a
// configuration file, --print-config and "did you mean" are all read from it.
//
// To add an option: a line in the table (options.cpp) and a member in Config.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "launcher/config.h"

namespace ddprun {

// As --help shows them; `python` are torchrun's options that only make sense in Python: they change nothing, or are
// refused.
enum class Group { workers, job, access, stopping, logs, reports, ddprun, python, hidden };

enum class Completes { nothing, file, folder };  // where an option has no choices

// With dashes, as a person reads it; each option also exists with underscores, as PET_<NAME> in the environment, and
// as a key of a configuration file.
struct OptionRow {
  const char* name;
  Group group;
  const char* value = "";  // how help calls its value; empty: a flag
  const char* help;        // one line, without the default
  // Puts the text of a value into the Config, or says what is wrong with it as the rest of a sentence (values.h).
  // nullptr: it has no value that a Config keeps.
  std::string (*set)(Config&, const OptionRow&, const std::string& text) = nullptr;
  const char* normally = "";  // the default as `set` reads it
  char letter = 0;
  const char* alias = "";    // a second name
  const char* also_in = "";  // a second environment variable
  const char* choices = "";  // "auto|rank|group"
  Completes completes = Completes::nothing;
  const char* brief = "";    // its line on the first screen of help, for those most needed
  bool list = false;         // a file may give an array
  const char* meant = "";    // what other launchers call it, comma-separated
  const char* refusal = "";  // why ddprun has it not
  const char* more = "";     // further sentences for the man page

  bool flag() const { return !*value; }
};

std::span<const OptionRow> options();
const OptionRow& option(const std::string& name);  // a name of the table

// The option that has this very name or alias, with dashes or underscores; nullptr: none.
const OptionRow* find_option(const std::string& name);
// All options that a name without its first dashes may abbreviate.
std::vector<const OptionRow*> abbreviated(const std::string& name);
// What an unknown name was probably meant to be; nullptr: anyone's guess.
const OptionRow* nearest_option(const std::string& name);

bool in_file(const OptionRow& row);                     // may a configuration file set it
bool in_environment(const OptionRow& row);              // has it a twin in the environment
std::string environment_twin(const std::string& name);  // "max-restarts" → "PET_MAX_RESTARTS"

// What a value that cannot be is told.
std::string refusal(const Setting& setting, const std::string& complaint);

struct GroupTitle {
  Group group;
  const char* name;   // --help NAME
  const char* title;  // what it holds
};
std::span<const GroupTitle> groups();

}  // namespace ddprun
