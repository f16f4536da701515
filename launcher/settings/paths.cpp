#include "launcher/settings/paths.h"

#include <cctype>
#include <optional>

namespace ddprun::settings {
namespace {

using Variables = std::map<std::string, std::string>;

bool is_name_letter(unsigned char c) { return std::isalnum(c) || c == '_'; }

struct Variable {
  std::string name;
  std::size_t size;  // of $NAME or ${NAME}
};

// At a '$'; empty: it is a letter like others.
std::optional<Variable> variable_at(const std::string& text, std::size_t at) {
  const bool braced = at + 1 < text.size() && text[at + 1] == '{';
  const std::size_t begin = at + (braced ? 2 : 1);
  std::size_t end = begin;
  while (end < text.size() && is_name_letter(static_cast<unsigned char>(text[end]))) ++end;
  const bool closed = !braced || (end < text.size() && text[end] == '}');
  if (end == begin || std::isdigit(static_cast<unsigned char>(text[begin])) || !closed) return {};
  return Variable{text.substr(begin, end - begin), end - at + (braced ? 1 : 0)};
}

std::string no_variable(const Setting& setting, const std::string& name) {
  return subject(setting) + " is '" + setting.text + "', and there is no variable " + name + " in the environment.";
}

// Replaces them in `text`; returns what is wrong, or nothing.
std::string expand_variables(const Setting& setting, const Variables& variables, std::string& text) {
  std::string expanded;
  for (std::size_t at = 0; at < text.size();) {
    const auto variable = text[at] == '$' ? variable_at(text, at) : std::nullopt;
    if (!variable) {
      expanded += text[at++];
      continue;
    }
    const auto found = variables.find(variable->name);
    if (found == variables.end()) return no_variable(setting, variable->name);
    expanded += found->second;
    at += variable->size;
  }
  text = std::move(expanded);
  return {};
}

std::string expand(Setting& setting, const Variables& variables) {
  const bool typed = setting.origin == Origin::command_line;  // there a shell has replaced what it should
  std::string text = setting.text;
  if (!typed)
    if (std::string wrong = expand_variables(setting, variables, text); !wrong.empty()) return wrong;
  if (setting.text.starts_with('~')) {
    const bool own = text.size() == 1 || text[1] == '/';
    if (!own && typed) return {};
    if (!own)
      return subject(setting) + " is '" + setting.text +
             "', and only ~/ is replaced, by HOME: write another user's folder as it is.";
    const auto home = variables.find("HOME");
    if (home == variables.end()) return no_variable(setting, "HOME");
    text = home->second + text.substr(1);
  }
  setting.text = std::move(text);
  return {};
}

}  // namespace

std::vector<std::string> expand_paths(std::vector<Setting>& settings, PathsOf which, const Variables& environment) {
  std::vector<std::string> mistakes;
  for (Setting& setting : settings) {
    const bool of_file = setting.origin == Origin::file;
    if (setting.option->completes == Completes::nothing || of_file != (which == PathsOf::file)) continue;
    if (!needs_shell(setting.text) || in_force(settings, *setting.option) != &setting) continue;
    if (std::string mistake = expand(setting, environment); !mistake.empty()) mistakes.push_back(std::move(mistake));
  }
  return mistakes;
}

bool needs_shell(const std::string& path) { return path.starts_with('~') || path.find('$') != std::string::npos; }

}  // namespace ddprun::settings
