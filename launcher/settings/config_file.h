// A configuration file: TOML whose keys are the option names, with dashes or underscores, in sections if they have one.
//
//   max-restarts = 4
// a list, for list options
//   [optimizer]
//   lr = 0.1
// must be given on the command line
//
// Only types are checked here, not values. Pure: text in, settings and sentences out.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/settings/option.h"
#include "rendezvous/base/toml.h"

namespace ddprun::settings {

// The mistakes found in a file, in the order of its lines.
class FileNotes {
 public:
  explicit FileNotes(std::string name) : name_(std::move(name)) {}

  std::string place(const toml::node& node) const { return name_ + ":" + std::to_string(line(node)); }
  void add(const toml::node& node, const std::string& sentence) { add(line(node), sentence); }
  void add(std::uint32_t line, const std::string& sentence);
  std::vector<std::string> take();  // "job.toml:3: ..."

 private:
  static std::uint32_t line(const toml::node& node) { return node.source().begin.line; }

  std::string name_;
  std::vector<std::pair<std::uint32_t, std::string>> notes_;
};

// Reads a program's additional top-level keys; returns whether it knew the key.
using ReadExtraKey = std::function<bool(const std::string& key, const toml::node& node, FileNotes& notes)>;

struct ConfigFile {
  std::vector<Setting> settings;
  std::vector<std::string> mistakes;
};

// `name` is the file's name, for "job.toml:3: ...".
ConfigFile read_config_file(const Table& table, const std::string& name, const std::string& text,
                            const ReadExtraKey& read_extra_key = {});

// A string, a number or, if allowed, a boolean as text.
std::optional<std::string> scalar(const toml::node& node, bool truth);

// Every value in force, with its origin as a comment, as such a file. `unset` says why an option has neither value nor
// default; empty: "not set".
std::string print_settings(const Table& table, const std::vector<Setting>& settings, const void* config,
                           const std::function<std::string(const Option&)>& unset = {});
// Of these only the values that are not the defaults, one a line.
std::string print_changed(const Table& table, const std::vector<Setting>& settings, const void* config,
                          const std::function<std::string(const Option&)>& unset = {});
// Only the given settings, without comments; a text that is no value of its option becomes a string.
std::string print_given(const Table& table, const std::vector<Setting>& settings);
// A line of that file with its comment.
std::string commented(std::string line, const std::string& comment);

// Texts as a TOML array, and a TOML key.
std::string toml_array(const std::vector<std::string>& texts);
std::string toml_key(const std::string& name);

}  // namespace ddprun::settings
