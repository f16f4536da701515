#include "launcher/completion.h"

#include "launcher/options.h"
#include "rendezvous/base/spelling.h"

namespace ddprun {
namespace {

std::string names(const OptionRow& row, const char* between) {
  std::string out = std::string("--") + row.name;
  if (const std::string other = with_underscores(row.name); other != row.name) out += between + ("--" + other);
  if (*row.alias) out += between + ("--" + std::string(row.alias)) + between + "--" + with_underscores(row.alias);
  return row.letter ? out + between + "-" + row.letter : out;
}

std::string choices(const OptionRow& row) {
  std::string out = row.choices;
  for (char& c : out)
    if (c == '|') c = ' ';
  return out;
}

bool shown(const OptionRow& row) { return row.group != Group::hidden && row.group != Group::python; }

// Where a pattern of `case` matches any option that takes a value this way.
std::string bash_case(const OptionRow& row) {
  const std::string words = choices(row);
  std::string action = ":";
  if (row.completes == Completes::file) action = "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))";
  if (row.completes == Completes::folder) action = "compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\"))";
  if (!words.empty()) action = "COMPREPLY=($(compgen -W '" + words + "' -- \"$cur\"))";
  return "    " + names(row, "|") + ")\n      " + action + "\n      return ;;\n";
}

// Options that take no value, for the walk to the program.
std::string flags() {
  std::string out;
  for (const OptionRow& row : options())
    if (row.flag()) out += (out.empty() ? "" : "|") + names(row, "|");
  return out;
}

std::string option_words() {
  std::string out;
  for (const OptionRow& row : options())
    if (shown(row)) out += (out.empty() ? "" : " ") + (std::string("--") + row.name);
  return out;
}

std::string bash() {
  std::string cases;
  for (const OptionRow& row : options())
    if (shown(row) && !row.flag()) cases += bash_case(row);
  return R"(# Completion of ddprun for bash, made from its option table.
_ddprun() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i
  COMPREPLY=()
  # bash makes words of --name=value: "--name" "=" "value"
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  # Behind the program every word is its own.
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) compopt -o default; return ;;
      )" +
         flags() + R"() ;;
      --*) if [[ ${COMP_WORDS[i+1]} == = ]]; then ((i += 2)); else ((i += 1)); fi ;;
      -?) ((i += 1)) ;;
      -*|=) ;;
      *) compopt -o default; return ;;
    esac
  done
  case $prev in
)" + cases +
         R"(  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W ')" +
         option_words() + R"(' -- "$cur"))
  else
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$cur") $(compgen -c -- "$cur"))
  fi
}
complete -F _ddprun ddprun
)";
}

// What zsh's _arguments reads: brackets, colons and quotes have a meaning there.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\' || c == '$' || c == '`' || c == '"') out += '\\';
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out;
}

std::string zsh_action(const OptionRow& row) {
  if (*row.choices) return "(" + choices(row) + ")";
  if (row.completes == Completes::file) return "_files";
  return row.completes == Completes::folder ? "_files -/" : " ";
}

std::string zsh_spec(const OptionRow& row, const std::string& name) {
  const bool is_long = name.starts_with("--");
  std::string out = name + (row.flag() ? "" : is_long ? "=" : "+") + "[" + zsh_text(row.help) + "]";
  if (!row.flag()) out += ":" + zsh_text(row.value) + ":" + zsh_action(row);
  return "  '" + out + "' \\\n";
}

std::string zsh() {
  std::string out =
      "#compdef ddprun\n# Completion of ddprun for zsh, made from its option table.\n\n_arguments -S -s \\\n";
  for (const OptionRow& row : options()) {
    if (!shown(row)) continue;
    out += zsh_spec(row, std::string("--") + row.name);
    if (row.letter) out += zsh_spec(row, std::string("-") + row.letter);
  }
  return out + "  '1:program:_command_names -e' \\\n  '*::argument:_files'\n";
}

// What tcsh's `complete` offers for the value of an option.
std::string tcsh_action(const OptionRow& row) {
  if (*row.choices) return "(" + choices(row) + ")";
  if (row.completes == Completes::file) return "f";
  return row.completes == Completes::folder ? "d" : "n";
}

// n/WORD/: what follows that word; c/WORD/: what completes a word that begins so. The first that fits counts.
std::string tcsh() {
  std::string values, words;
  for (const OptionRow& row : options()) {
    if (!shown(row)) continue;
    const std::string name = std::string("--") + row.name, action = "/" + tcsh_action(row) + "/";
    if (!row.flag()) values += "  'n/" + name + action + "' 'c/" + name + "=" + action + "' \\\n";
    if (!row.flag() && row.letter) values += std::string("  'n/-") + row.letter + action + "' \\\n";
    words += (words.empty() ? "" : " ") + std::string(row.name);
  }
  return "# Completion of ddprun for tcsh, made from its option table.\ncomplete ddprun \\\n" + values + "  'c/--/(" +
         words + ")/' \\\n  'p/1/c/' 'p/*/f/'\n";
}

}  // namespace

std::string completion(const std::string& shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  return shell == "tcsh" ? tcsh() : "";
}

}  // namespace ddprun
