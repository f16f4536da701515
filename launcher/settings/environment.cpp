#include "launcher/settings/environment.h"

#include <algorithm>

#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"

namespace ddprun::settings {
namespace {

using Environment = std::map<std::string, std::string>;

// LOGLEVEL is a Python log level: only two levels mean more output than usual.
std::string meaning(const std::string& variable, const std::string& text) {
  if (variable != "LOGLEVEL") return text;
  const std::string level = upper_case(text);
  return level == "INFO" || level == "DEBUG" ? "1" : "";
}

// Options that only make sense on a command line have no variable.
bool has_variables(const Option& option) {
  const std::string_view name = option.name;
  return option.group->kind != Group::hidden && name != "help" && name != "version" && name != "make-token" &&
         name != "print-completion";
}

// Without `with_prefix` only those that have another program's name.
std::vector<std::string> variables(const Table& table, const Option& option, bool with_prefix = true) {
  std::vector<std::string> names;
  if (!has_variables(option)) return names;
  for (const std::string_view name : {option.name, option.alias})
    if (with_prefix && !name.empty()) names.push_back(table.environment + upper_case(with_underscores(name)));
  if (*option.also_in) names.push_back(option.also_in);
  return names;
}

std::string typo(const Table& table, const std::string& variable) {
  std::vector<std::string> known;
  for (const Option& option : table.options)
    for (std::string& name : variables(table, option)) known.push_back(std::move(name));
  if (std::find(known.begin(), known.end(), variable) != known.end()) return {};
  const std::string near = nearest(variable, known);
  if (!near.starts_with(table.environment) || distance(variable, near) > 2) return {};
  return variable + " in the environment is not an option." + did_you_mean(near);
}

}  // namespace

EnvOptions read_environment(const Table& table, const Environment& environment) {
  EnvOptions env_options;
  auto entry = environment.lower_bound(table.environment);
  const bool some = entry != environment.end() && entry->first.starts_with(table.environment);  // mostly there are none
  for (; entry != environment.end() && entry->first.starts_with(table.environment); ++entry)
    if (std::string mistake = typo(table, entry->first); !mistake.empty())
      env_options.mistakes.push_back(std::move(mistake));
  for (const Option& option : table.options)
    for (const std::string& name : variables(table, option, some)) {
      const auto found = environment.find(name);
      const std::string text = found == environment.end() ? "" : meaning(name, found->second);
      if (text.empty()) continue;
      env_options.settings.push_back({&option, text, Origin::environment, name});
      break;
    }
  return env_options;
}

}  // namespace ddprun::settings
