#include "launcher/settings/help.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::settings {
namespace {

// All spellings of an option's name.
std::vector<std::string> names(const Option& option) {
  std::vector<std::string> all;
  for (const std::string name : {option.name, option.alias}) {
    if (name.empty()) continue;
    all.push_back("--" + name);
    if (const std::string other = with_underscores(name); other != name) all.push_back("--" + other);
  }
  if (option.letter) all.push_back(std::string("-") + option.letter);
  return all;
}

std::string choices(const Option& option) { return joined(split(option.choices, '|'), " "); }

std::vector<const Option*> shown(const Table& table) {
  std::vector<const Option*> all;
  for (const Option& option : table.options)
    if (option.group->kind <= Group::actions && *option.name && !option.positional) all.push_back(&option);
  return all;
}

// The action for an option's value, in a pattern of `case`.
std::string bash_case(const Option& option) {
  std::string action = ":";
  if (option.completes == Completes::file) action = "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))";
  if (option.completes == Completes::folder) action = "compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\"))";
  if (*option.choices) action = "COMPREPLY=($(compgen -W '" + choices(option) + "' -- \"$cur\"))";
  return "    " + joined(names(option), "|") + ")\n      " + action + "\n      return ;;\n";
}

// Searches for the program, after which every word belongs to it.
std::string bash_walk(const Table& table) {
  std::vector<std::string> flags;  // they take no value
  for (const Option& option : table.options)
    if (!option.takes_word()) flags.push_back(joined(names(option), "|"));
  return R"(  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) compopt -o default; return ;;
      )" +
         joined(flags, "|") +
         R"() ;;
      --*) if [[ ${COMP_WORDS[i+1]} == = ]]; then ((i += 2)); else ((i += 1)); fi ;;
      -?) ((i += 1)) ;;
      -*|=) ;;
      *) compopt -o default; return ;;
    esac
  done
)";
}

std::string comment(const Table& table, const char* shell) {
  return std::string("# Completion of ") + table.program + " for " + shell + ", made from its option table.\n";
}

std::string bash(const Table& table) {
  std::string cases;
  std::vector<std::string> words;
  for (const Option* option : shown(table)) {
    if (!option->flag()) cases += bash_case(*option);
    words.push_back(std::string("--") + option->name);
  }
  const std::string name = table.program;
  return comment(table, "bash") + "_" + name + R"(() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i
  COMPREPLY=()
  # bash makes words of --name=value: "--name" "=" "value"
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
)" + (table.runs_a_program ? bash_walk(table) : "") +
         "  case $prev in\n" + cases + R"(  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W ')" +
         joined(words, " ") +
         R"(' -- "$cur"))
  else
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$cur"))" +
         (table.runs_a_program ? " $(compgen -cW '" + std::string(table.commands) + R"(' -- "$cur"))" : "") +
         ")\n  fi\n}\ncomplete -F _" + name + " " + name + "\n";
}

// Escaped for zsh's _arguments, where brackets, colons and quotes have a meaning.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\' || c == '$' || c == '`' || c == '"') out += '\\';
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out;
}

std::string zsh_action(const Option& option) {
  if (*option.choices) return "(" + choices(option) + ")";
  if (option.completes == Completes::file) return "_files";
  return option.completes == Completes::folder ? "_files -/" : " ";
}

std::string zsh_spec(const Option& option, const std::string& name) {
  const bool is_long = name.starts_with("--");
  std::string out = name + (option.flag() ? "" : is_long ? "=" : "+") + "[" + zsh_text(option.help) + "]";
  if (!option.flag()) out += ":" + zsh_text(option.value) + ":" + zsh_action(option);
  return " \\\n  '" + out + "'";
}

std::string zsh(const Table& table) {
  std::string out = std::string("#compdef ") + table.program + "\n" + comment(table, "zsh") + "\n_arguments -S -s";
  for (const Option* option : shown(table)) {
    out += zsh_spec(*option, std::string("--") + option->name);
    if (option->letter) out += zsh_spec(*option, std::string("-") + option->letter);
  }
  return out + (table.runs_a_program ? " \\\n  '1:program:_command_names -e' \\\n  '*::argument:_files'\n" : "\n");
}

// The action of tcsh's `complete` for the value of an option.
std::string tcsh_action(const Option& option) {
  if (*option.choices) return "(" + choices(option) + ")";
  if (option.completes == Completes::file) return "f";
  return option.completes == Completes::folder ? "d" : "n";
}

// n/WORD/: what follows that word; c/WORD/: completions of a word that starts so. The first match counts.
std::string tcsh(const Table& table) {
  std::string values;
  std::vector<std::string> words;
  for (const Option* option : shown(table)) {
    const std::string name = std::string("--") + option->name, action = "/" + tcsh_action(*option) + "/";
    if (!option->flag()) values += "  'n/" + name + action + "' 'c/" + name + "=" + action + "' \\\n";
    if (!option->flag() && option->letter) values += std::string("  'n/-") + option->letter + action + "' \\\n";
    words.emplace_back(option->name);
  }
  return comment(table, "tcsh") + "complete " + table.program + " \\\n" + values + "  'c/--/(" + joined(words, " ") +
         ")/'" + (table.runs_a_program ? " \\\n  'p/1/c/' 'p/*/f/'\n" : "\n");
}

}  // namespace

std::string completion(const Table& table, const std::string& shell) {
  if (shell == "bash") return bash(table);
  if (shell == "zsh") return zsh(table);
  return shell == "tcsh" ? tcsh(table) : "";
}

}  // namespace ddprun::settings
