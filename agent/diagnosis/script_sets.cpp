#include "agent/diagnosis/script_sets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>

namespace ddprun::agent {
namespace {

constexpr std::string_view kBlanks = " \t\r";

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

// The script with blanks instead of comments and of what is in strings, line ends too; their quotes stay.
std::string code_of(const std::string& text) {
  std::string code = text;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t size = 1;
    if (text[at] == '#') {
      size = std::min(text.find('\n', at), text.size()) - at;
      std::fill_n(code.begin() + static_cast<std::ptrdiff_t>(at), size, ' ');
    } else if (text[at] == '\'' || text[at] == '"') {
      size = string_size(text, at);
      for (std::size_t i = at + 1; i + 1 < at + size; ++i) code[i] = ' ';
    }
    at += size;
  }
  return code;
}

// A statement, or the line that begins a block, with all lines of its brackets, from its first letter.
struct Statement {
  std::string_view text, code;
  std::size_t indentation = 0;
};

// Where the one that begins at `at` ends: at a line end in no bracket and not behind a backslash.
std::size_t statement_end(std::string_view code, std::size_t at) {
  for (int open = 0; at < code.size(); ++at) {
    if (code[at] == '\\')
      at += code.substr(at + 1).starts_with('\r') ? 2 : 1;
    else if (std::string_view("([{").find(code[at]) != std::string_view::npos)
      ++open;
    else if (std::string_view(")]}").find(code[at]) != std::string_view::npos)
      open = std::max(open - 1, 0);
    else if (code[at] == '\n' && open == 0)
      break;
  }
  return std::min(at, code.size());
}

// Whether a string behind `begin` is that name.
bool has_string(const Statement& statement, std::string_view name, std::size_t begin) {
  const std::string_view code = statement.code;
  for (std::size_t at = statement.text.find(name, begin); at != code.npos; at = statement.text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (at > begin && end < code.size() && (code[at - 1] == '\'' || code[at - 1] == '"') && code[end] == code[at - 1])
      return true;
  }
  return false;
}

struct Setting {
  std::string_view variable = {};  // empty: it sets none
  std::size_t value = 0;           // where it begins in the statement
};

// Of os.environ["RANK"] = ... and os.putenv("RANK", ...).
Setting setting_of(const Statement& statement) {
  const std::string_view code = statement.code;
  for (const std::string_view start : {"os.environ[", "environ[", "os.putenv("}) {
    if (!code.starts_with(start)) continue;
    const std::size_t quote = code.find_first_not_of(kBlanks, start.size());
    if (quote == code.npos || (code[quote] != '\'' && code[quote] != '"')) return {};
    const std::size_t end = code.find(code[quote], quote + 1);
    if (end == code.npos) return {};
    const bool by_call = start.ends_with('(');
    std::size_t at = code.find_first_not_of(kBlanks, end + 1);
    if (at == code.npos || code[at] != (by_call ? ',' : ']')) return {};
    if (!by_call) at = code.find_first_not_of(kBlanks, at + 1);
    if (at == code.npos || (!by_call && (code[at] != '=' || code.substr(at).starts_with("==")))) return {};
    return {statement.text.substr(quote + 1, end - quote - 1), at};
  }
  return {};
}

// Whether what is in its block may not run. What is under the usual condition on __name__ runs.
bool is_condition(const Statement& statement) {
  if (statement.text.find("__name__") != statement.text.npos) return false;
  const std::string_view code = statement.code;
  for (const std::string_view word :
       {"if", "elif", "else", "try", "except", "finally", "while", "for", "match", "case"})
    if (code.starts_with(word) &&
        (code.size() == word.size() || !std::isalnum(static_cast<unsigned char>(code[word.size()]))))
      return true;
  return false;
}

// The blocks around the statements of a script, which are given in their order.
class Blocks {
 public:
  // Whether the next one stands under a condition.
  bool are_conditional(const Statement& next) {
    while (!open_.empty() && open_.back().indentation >= next.indentation) open_.pop_back();
    const bool conditional = !open_.empty() && open_.back().conditional;
    open_.push_back({next.indentation, conditional || is_condition(next)});
    return conditional;
  }

 private:
  struct Block {
    std::size_t indentation = 0;
    bool conditional = false;
  };
  std::vector<Block> open_;
};

// Reads a script's statements in their order, each once.
class Reading {
 public:
  // The variable that it sets, unless under a condition or where the script has read it.
  std::string_view set_by(const Statement& statement) {
    const bool conditional = blocks_.are_conditional(statement);
    const auto [variable, value] = setting_of(statement);
    for (const std::string_view name : kSetForWorkers)
      if (!read_.contains(name) && has_string(statement, name, value)) read_.insert(name);
    const bool ours = std::find(kSetForWorkers.begin(), kSetForWorkers.end(), variable) != kSetForWorkers.end();
    const bool from_itself = statement.text.find(variable, value) != statement.text.npos;
    return ours && !conditional && !from_itself && !read_.contains(variable) ? variable : "";
  }

 private:
  Blocks blocks_;
  std::set<std::string_view> read_;
};

}  // namespace

std::optional<ScriptSets> script_sets(const std::string& text) {
  const std::string code = code_of(text);
  Reading reading;
  std::size_t counted = 0;
  int line = 1;
  for (std::size_t begin = 0, end = 0; begin < code.size(); begin = end + 1) {
    end = statement_end(code, begin);
    const std::size_t first = std::min(code.find_first_not_of(kBlanks, begin), end);
    if (first == end) continue;
    const std::string_view variable =
        reading.set_by({std::string_view(text).substr(first, end - first),
                        std::string_view(code).substr(first, end - first), first - begin});
    for (; counted < first; ++counted) line += text[counted] == '\n';
    if (!variable.empty()) return ScriptSets{line, std::string(variable)};
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
