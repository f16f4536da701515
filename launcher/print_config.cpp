#include "launcher/print_config.h"

#include <charconv>

#include "launcher/config_file.h"
#include "launcher/help.h"
#include "launcher/options.h"
#include "launcher/values.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/toml.h"

namespace ddprun {
namespace {

constexpr std::size_t kCommentColumn = 44;

// "7" but not "007", which a number would change.
bool whole_number(const std::string& text) {
  const bool digits = !text.empty() && text.size() < 18 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits && (text == "0" || text.front() != '0');
}

std::string toml_value(const OptionRow& row, const std::string& text) {
  if (row.flag()) {
    const auto yes = read_flag(text);
    return std::holds_alternative<bool>(yes) && std::get<bool>(yes) ? "true" : "false";
  }
  return whole_number(text) ? text : toml_string(text);
}

// A file's name may hold anything, but a comment ends with its line.
std::string commented(std::string line, const std::string& comment) {
  if (line.size() < kCommentColumn) line.resize(kCommentColumn, ' ');
  return line + "  # " + visible(comment) + "\n";
}

std::string line(const Config& config, const OptionRow& row) {
  if (const Setting* setting = in_force(config.settings, row))
    return commented(std::string(row.name) + " = " + toml_value(row, setting->text), setting->place);
  if (row.name == std::string_view("token-file") && !config.token_variable.empty())
    return commented("# token-file", config.token_variable + ": set, not shown");
  if (row.flag()) return commented(std::string(row.name) + " = false", "default");
  if (*row.normally) return commented(std::string(row.name) + " = " + toml_value(row, row.normally), "default");
  return commented(std::string("# ") + row.name, "not set");
}

std::string program_line(const Config& config) {
  if (config.program.empty()) return commented("# program", "not set");
  return commented("program = " + toml_array(config.program),
                   config.program_place.empty() ? "command line" : config.program_place);
}

}  // namespace

std::string print_config(const Config& config) {
  std::string out = std::string("# What is in force for ddprun ") + version() + ", and where it came from.\n";
  for (const GroupTitle& group : groups()) {
    if (group.group >= Group::ddprun) continue;
    out += std::string("\n# ") + group.name + "\n";
    for (const OptionRow& row : options())
      if (row.group == group.group) out += line(config, row);
  }
  out += "\n" + program_line(config);
  if (config.env.empty()) return out;
  out += "\n[env]\n";
  for (const auto& [name, value] : config.env) out += toml_key(name) + " = " + toml_string(value) + "\n";
  return out;
}

}  // namespace ddprun
