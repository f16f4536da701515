// A program's settings as one table. Command line, environment variables, configuration file keys, --set,
// --print-config, help, manual page and completions are all made from it.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ddprun::settings {

struct Option;

enum class Takes { text, whole_number, number, flag, list };  // a list: comma-separated texts

// Converts the text of a value to the program's own struct and back.
struct Member {
  // Stores the value, or returns what is wrong as the rest of a sentence (values.h). nullptr: the value is not kept.
  std::string (*set)(void* config, const Option& option, const std::string& text) = nullptr;
  // The value as text that `set` reads; nullptr: show the text that was set.
  std::string (*get)(const void* config, const Option& option) = nullptr;
  Takes takes = Takes::text;
};

struct Group {
  enum Kind {
    values,   // can be set in a configuration file
    actions,  // what the program does instead, or how: not in a file
    foreign,  // accepted for compatibility with other launchers' command lines: in no overview or completion
    hidden
  };
  const char* name;  // --help NAME
  const char* title;
  Kind kind = values;
};

enum class Completes { nothing, file, folder };  // if an option has no choices

constexpr double kNoLimit = 1e300;

// Attributes that few options have.
struct OptionExtras {
  const char* default_value = "";  // as Member::set reads it, if there is no Member::get
  char letter = 0;
  const char* alias = "";    // a second name
  const char* also_in = "";  // a second environment variable
  const char* choices = "";  // "auto|rank|group"
  Completes completes = Completes::nothing;
  const char* brief = "";   // its line on the first help screen, for the most needed options
  bool list = false;        // an array in a file is allowed
  bool positional = false;  // a word without dashes
  bool value_optional = false;
  bool is_switch = false;                  // alone it is a flag, and its value, "true" then, needs a '='
  const char* synonyms = "";               // its names in other programs, comma-separated
  const char* stands_for = "";             // the key of another option, which it sets
  const char* sets = "";                   // with stands_for: the value that this flag sets; empty: it takes the value
  const char* sets_off = "";               // with sets: the value that the flag sets as false; empty: none
  const char* refusal = "";                // why it is unsupported
  const char* more = "";                   // further sentences for the man page
  double min = -kNoLimit, max = kNoLimit;  // of a number
  bool above_min = false;                  // min itself is not allowed
};

struct Option : OptionExtras {
  const char* name;  // without the two dashes; a dash may be written as underscore; "": only in a file or --set
  const Group* group;
  const char* value;  // the value's name in help; empty: a flag
  const char* help;   // one line, without the default
  Member member;
  const char* key = "";  // in a file, "optimizer.lr"; empty: same as the name

  bool flag() const { return !*value; }
  bool takes_word() const { return !flag() && !is_switch; }  // its value may be the next word
  const char* file_key() const { return *key ? key : name; }
};

// A row of a table.
constexpr Option row(const Group& group, const char* name, const char* value, const char* help, Member member = {},
                     OptionExtras extras = {}) {
  return {extras, name, &group, value, help, member};
}

struct Table {
  const char* program;  // "ddprun"
  std::span<const Option> options;
  std::span<const Group* const> groups;
  const void* defaults;          // the program's struct with all defaults
  const char* environment = "";  // prefix of the environment variables, "PET_"; empty: none
  const char* commands = "";     // first words that are no program's: "run submit"
  bool runs_a_program = false;   // the first word that is no option begins another program's command line
};

// Later origins win.
enum class Origin { standard, scheduler, file, environment, command_line };

struct Setting {
  const Option* option = nullptr;
  std::string text = {};  // as given, read by Member::set
  Origin origin = Origin::standard;
  std::string place = {};  // "--max_restarts", "PET_MAX_RESTARTS", "job.toml:3", "SLURM_NODEID", "--set optimizer.lr"
  bool overrides = false;  // a word KEY=VALUE: of several the last one counts
};

inline constexpr const char* kMustBeGiven = "???";  // in a file: must be given on the command line

// How messages name it: "--max_restarts", "PET_MAX_RESTARTS in the environment", "job.toml:3: max-restarts".
std::string subject(const Setting& setting);

// The setting in force for an option, nullptr if it is not set. Within one origin the last one wins.
const Setting* in_force(const std::vector<Setting>& settings, const Option& option);

// Stores the settings in force in the program's struct; returns a sentence for each that is wrong.
std::vector<std::string> apply(const Table& table, const std::vector<Setting>& settings, void* config);

const Option& option(const Table& table, const std::string& name);  // `name` must be in the table
// The option with exactly this name or alias, with dashes or underscores; nullptr: none.
const Option* find_option(const Table& table, const std::string& name);
const Option* find_key(const Table& table, const std::string& key);
// All options that this name, without its first dashes, may abbreviate.
std::vector<const Option*> abbreviated(const Table& table, const std::string& name);
// The most similar name, or key of a file, to suggest for an unknown one; nullptr: none is similar.
const Option* nearest_option(const Table& table, const std::string& name);
const Option* nearest_key(const Table& table, const std::string& key);

bool in_file(const Option& option);  // may a configuration file set it

// The default as Member::set reads it; empty: none to show.
std::string default_of(const Table& table, const Option& option);

}  // namespace ddprun::settings
