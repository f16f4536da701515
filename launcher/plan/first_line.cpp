#include "launcher/plan/first_line.h"

#include <algorithm>
#include <set>

#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

// Others may start a Python: "#!/usr/bin/env uv run".
bool is_foreign(const std::string& name) {
  static const std::set<std::string> known{"ash",   "awk",     "bash", "busybox", "csh",  "dash",  "fish", "gawk",
                                           "julia", "ksh",     "lua",  "make",    "mksh", "node",  "perl", "php",
                                           "pwsh",  "Rscript", "ruby", "sh",      "tcsh", "tclsh", "zsh"};
  return known.contains(name);
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// In the usual folders, where PATH leads, too.
std::string short_name(const std::string& path) {
  for (const char* folder : {"/bin/", "/usr/bin/", "/usr/local/bin/"})
    if (path.starts_with(folder) && last_part(path).size() + std::string_view(folder).size() == path.size())
      return last_part(path);
  return path;
}

// Such as pip writes for an interpreter with a long path: the shell sees a command there, and Python a text. A shell's
// own script may begin with "$HOME/x".
bool is_python_below(std::string_view lines) {
  while (lines.starts_with('#')) lines.remove_prefix(std::min(lines.find('\n'), lines.size() - 1) + 1);
  return (lines.starts_with('\'') || lines.starts_with('"')) && !lines.substr(1).starts_with('$') &&
         !lines.substr(1).starts_with('/');
}

// Of the words behind env: its options and variables are left out.
std::vector<std::string> command_of_env(std::vector<std::string> words) {
  constexpr std::string_view kSplit = "--split-string=";
  for (std::size_t i = 0; i < words.size();) {
    std::string& word = words[i];
    const std::size_t letter =
        word.starts_with('-') && !word.starts_with("--") ? word.find_first_of("SuC", 1) : word.npos;
    const bool has_value = word == "--unset" || word == "--chdir" ||
                           (letter != word.npos && word[letter] != 'S' && letter + 1 == word.size());
    if (word.starts_with(kSplit))
      word.erase(0, kSplit.size());
    else if (letter != word.npos && word[letter] == 'S' && letter + 1 < word.size())
      word.erase(0, letter + 1);  // -Sbash
    else if (word.starts_with('-') || word.find('=') != word.npos)
      i += has_value ? 2 : 1;
    else
      return {words.begin() + static_cast<std::ptrdiff_t>(i), words.end()};
  }
  return {};
}

}  // namespace

std::vector<std::string> foreign_interpreter(std::string_view beginning) {
  if (!beginning.starts_with("#!")) return {};
  const std::size_t end = std::min(beginning.find('\n'), beginning.size());
  std::vector<std::string> words;
  for (const std::string_view word : words_in(beginning.substr(2, end - 2))) words.emplace_back(word);
  if (!words.empty() && last_part(words.front()) == "env") words = command_of_env({words.begin() + 1, words.end()});
  if (words.empty() || !is_foreign(last_part(words.front()))) return {};
  if (end < beginning.size() && is_python_below(beginning.substr(end + 1))) return {};
  words.front() = short_name(words.front());
  return words;
}

}  // namespace ddprun::launcher
