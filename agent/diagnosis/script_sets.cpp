#include "agent/diagnosis/script_sets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace ddprun::agent {
namespace {

constexpr std::array<std::string_view, 7> kSetForWorkers = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"};

// How long the string is that begins at `at`, with its quotes; one of one line ends with it.
std::size_t string_size(std::string_view text, std::size_t at) {
  const std::string_view one = text.substr(at, 1), three = text.substr(at, 3);
  const bool is_long = three.size() == 3 && three[0] == three[1] && three[1] == three[2];
  const std::string_view quote = is_long ? three : one;
  for (std::size_t end = at + quote.size(); end < text.size(); ++end) {
    if (text[end] == '\\')
      ++end;
    else if (text.substr(end).starts_with(quote))
      return end + quote.size() - at;
    else if (text[end] == '\n' && !is_long)
      return end - at;
  }
  return text.size() - at;
}

// The script with blanks instead of comments and of what is in strings; their quotes stay.
std::string code_of(const std::string& text) {
  std::string code = text;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t size = 1;
    if (text[at] == '#') {
      size = std::min(text.find('\n', at), text.size()) - at;
      std::fill_n(code.begin() + static_cast<std::ptrdiff_t>(at), size, ' ');
    } else if (text[at] == '\'' || text[at] == '"') {
      size = string_size(text, at);
      for (std::size_t i = at + 1; i + 1 < at + size; ++i)
        if (text[i] != '\n') code[i] = ' ';
    }
    at += size;
  }
  return code;
}

// "RANK" of ["RANK"] and ("RANK": `at` is behind the bracket. Empty: no plain string stands there. `at` moves behind
// it.
std::string named_at(const std::string& text, const std::string& code, std::size_t& at) {
  if (at >= code.size() || (code[at] != '\'' && code[at] != '"')) return {};
  const std::size_t end = code.find(code[at], at + 1);
  if (end == code.npos) return {};
  std::string name = text.substr(at + 1, end - at - 1);
  at = code.find_first_not_of(" \t", end + 1);
  return name;
}

// What one line sets, and whether from its own value; `begin` and `end` of the line.
std::string set_by(const std::string& text, const std::string& code, std::size_t begin, std::size_t end) {
  std::size_t at = std::min(code.find_first_not_of(" \t", begin), end);
  const std::string_view statement = std::string_view(code).substr(at, end - at);
  std::string name;
  for (const std::string_view start : {"os.environ[", "environ[", "os.putenv("}) {
    if (!statement.starts_with(start)) continue;
    at += start.size();
    name = named_at(text, code, at);
    const bool by_call = start.ends_with('(');
    if (name.empty() || at >= end || code[at] != (by_call ? ',' : ']')) return {};
    at = std::min(code.find_first_not_of(" \t", at + 1), end);
    const bool sets = by_call || (at + 1 < end && code[at] == '=' && code[at + 1] != '=');
    const bool from_itself = text.substr(at, end - at).find(name) != std::string::npos;
    return sets && !from_itself ? name : "";
  }
  return {};
}

// Whether it stands under an if, else or try: walks up the lines with less indentation. What is under the usual
// condition on __name__ runs.
bool is_conditional(const std::string& text, const std::string& code, std::size_t begin) {
  std::size_t indentation = std::min(code.find_first_not_of(" \t", begin), code.size()) - begin;
  while (begin > 0 && indentation > 0) {
    const std::size_t end = begin - 1;
    begin = end == 0 ? 0 : code.rfind('\n', end - 1) + 1;  // npos + 1 is 0
    const std::size_t first = code.find_first_not_of(" \t", begin);
    if (first >= end || first - begin >= indentation) continue;
    indentation = first - begin;
    const std::string_view line = std::string_view(code).substr(first, end - first);
    if (text.substr(first, end - first).find("__name__") != std::string::npos) continue;
    for (const std::string_view word :
         {"if", "elif", "else", "try", "except", "finally", "while", "for", "match", "case"})
      if (line.starts_with(word) &&
          (line.size() == word.size() || !std::isalnum(static_cast<unsigned char>(line[word.size()]))))
        return true;
  }
  return false;
}

}  // namespace

std::optional<ScriptSets> script_sets(const std::string& text) {
  const std::string code = code_of(text);
  int number = 1;
  for (std::size_t begin = 0; begin < code.size(); ++number) {
    const std::size_t end = std::min(code.find('\n', begin), code.size());
    const std::string name = set_by(text, code, begin, end);
    const bool ours = std::find(kSetForWorkers.begin(), kSetForWorkers.end(), name) != kSetForWorkers.end();
    if (ours && !is_conditional(text, code, begin)) return ScriptSets{number, name};
    begin = end + 1;
  }
  return {};
}

std::string script_of(const std::vector<std::string>& argv) {
  if (argv.empty() || !argv.front().substr(argv.front().rfind('/') + 1).starts_with("python")) return {};
  for (std::size_t i = 1; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (word.empty() || word.front() != '-') return word;
    if (word == "-W" || word == "-X")
      ++i;  // its value
    else if (word.size() == 1 || word.ends_with('m') || word.ends_with('c'))
      return {};  // "-" is stdin
  }
  return {};
}

}  // namespace ddprun::agent
