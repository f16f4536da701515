#include "launcher/first_line.h"

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

// Such as pip writes for an interpreter with a long path: the shell sees a command there, and Python a text.
bool is_python_below(std::string_view second_line) {
  return second_line.starts_with('\'') || second_line.starts_with('"');
}

}  // namespace

std::vector<std::string> foreign_interpreter(std::string_view beginning) {
  if (!beginning.starts_with("#!")) return {};
  const std::size_t end = std::min(beginning.find('\n'), beginning.size());
  std::vector<std::string> words;
  for (const std::string_view word : words_in(beginning.substr(2, end - 2))) words.emplace_back(word);
  if (!words.empty() && last_part(words.front()) == "env")
    words.erase(words.begin(), std::find_if(words.begin() + 1, words.end(), [](const std::string& word) {
                  return !word.starts_with('-') && word.find('=') == std::string::npos;
                }));
  if (words.empty() || !is_foreign(last_part(words.front()))) return {};
  if (end < beginning.size() && is_python_below(beginning.substr(end + 1))) return {};
  words.front() = short_name(words.front());
  return words;
}

}  // namespace ddprun::launcher
