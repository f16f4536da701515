// A program's settings as one table. The command line, the environment's twins, the keys of a configuration file,
// --set,
// --print-config, help, manual page and completions are all made from it.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ddprun::settings {

struct Option;

enum class Takes { text, whole_number, number, flag, list };  // a list: texts between commas

// How the text of a value comes into the program's own struct, and back.
struct Member {
  // Puts the text there, or says what is wrong with it as the rest of a sentence (values.h). nullptr: it is not kept.
  std::string (*set)(void* config, const Option& option, const std::string& text) = nullptr;
  // The value as `set` reads it; nullptr: what was set is all there is to show.
  std::string (*get)(const void* config, const Option& option) = nullptr;
  Takes takes = Takes::text;
};

struct Group {
  enum Kind {
    values,   // what a configuration file sets
    actions,  // what the program is to do instead, or how: not in a file
    foreign,  // taken for the sake of others' command lines: in no overview or completion
    hidden
  };
  const char* name;  // --help NAME
  const char* title;
  Kind kind = values;
};

enum class Completes { nothing, file, folder };  // where an option has no choices

constexpr double kNoLimit = 1e300;

// What few options have.
struct Further {
  const char* default_value = "";  // as Member::set reads it, where Member::get is none
  char letter = 0;
  const char* alias = "";    // a second name
  const char* also_in = "";  // a second environment variable
  const char* choices = "";  // "auto|rank|group"
  Completes completes = Completes::nothing;
  const char* brief = "";   // its line on the first screen of help, for those most needed
  bool list = false;        // a file may give an array
  bool positional = false;  // a word without dashes
  bool value_optional = false;
  const char* synonyms = "";               // what other programs call it, comma-separated
  const char* refusal = "";                // why this program has it not
  const char* more = "";                   // further sentences for the man page
  double min = -kNoLimit, max = kNoLimit;  // of a number
  bool above_min = false;                  // min itself is too small
};

struct Option : Further {
  const char* name;  // without the two dashes; each dash is also an underscore; "": by a file or --set only
  const Group* group;
  const char* value;  // how help calls its value; empty: a flag
  const char* help;   // one line, without the default
  Member member;
  const char* key = "";  // in a file, "optimizer.lr"; empty: the name

  bool flag() const { return !*value; }
  const char* file_key() const { return *key ? key : name; }
};

// A row of a table.
constexpr Option row(const Group& group, const char* name, const char* value, const char* help, Member member = {},
                     Further further = {}) {
  return {further, name, &group, value, help, member};
}

struct Table {
  const char* program;  // "ddprun"
  std::span<const Option> options;
  std::span<const Group* const> groups;
  const void* defaults;          // the program's struct, as it is without any setting
  const char* environment = "";  // begins the names of the twins, "PET_"; empty: there are none
  bool runs_a_program = false;   // the first word that is no option begins another program's command line
};

// The later one of two origins wins.
enum class Origin { standard, file, environment, command_line };

struct Setting {
  const Option* option = nullptr;
  std::string text = {};  // as it was written, read by Member::set
  Origin origin = Origin::standard;
  std::string place = {};  // "--max_restarts", "PET_MAX_RESTARTS", "job.toml:3", "--set optimizer.lr"
};

inline constexpr const char* kMustBeGiven = "???";  // in a file: the command line has to give it

// The subject of a sentence about it: "--max_restarts", "PET_MAX_RESTARTS in the environment", "job.toml:3:
// max-restarts".
std::string subject(const Setting& setting);

// The one of `settings` that counts for an option, nullptr where nobody set it. Of equals the last one counts.
const Setting* in_force(const std::vector<Setting>& settings, const Option& option);

// Puts what is in force into the program's struct; a sentence for each that cannot be.
std::vector<std::string> apply(const Table& table, const std::vector<Setting>& settings, void* config);

const Option& option(const Table& table, const std::string& name);  // a name of the table
// The option that has this very name or alias, with dashes or underscores; nullptr: none.
const Option* find_option(const Table& table, const std::string& name);
const Option* find_key(const Table& table, const std::string& key);
// All options that a name without its first dashes may abbreviate.
std::vector<const Option*> abbreviated(const Table& table, const std::string& name);
// What an unknown name, or key of a file, was probably meant to be; nullptr: anyone's guess.
const Option* nearest_option(const Table& table, const std::string& name);
const Option* nearest_key(const Table& table, const std::string& key);

bool in_file(const Option& option);  // may a configuration file set it

// The default as Member::set reads it; empty: there is none to show.
std::string default_of(const Table& table, const Option& option);

}  // namespace ddprun::settings
