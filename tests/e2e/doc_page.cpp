#include "tests/e2e/doc_page.h"

#include <regex>
#include <stdexcept>

#include "tests/support/texts.h"

namespace ddprun::test {
namespace {

constexpr const char* kFence = "```";

// A command may continue on the next line.
std::vector<std::string> joined_lines(const std::string& text) {
  std::vector<std::string> joined;
  bool goes_on = false;
  for (const std::string& line : lines_of(text)) {
    if (goes_on)
      joined.back() += "\n" + line;
    else
      joined.push_back(line);
    goes_on = line.ends_with('\\');
  }
  return joined;
}

std::string without_numbers(const std::string& line) {
  static const std::regex number(R"([0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?)");
  return std::regex_replace(line, number, "#");
}

using Lines = std::vector<std::string>;

bool same_lines(Lines::const_iterator page, Lines::const_iterator page_end, Lines::const_iterator output,
                Lines::const_iterator output_end) {
  if (page == page_end) return output == output_end;
  if (*page == "...") {
    for (auto rest = output;; ++rest) {
      if (same_lines(page + 1, page_end, rest, output_end)) return true;
      if (rest == output_end) return false;
    }
  }
  return output != output_end && without_numbers(*page) == without_numbers(*output) &&
         same_lines(page + 1, page_end, output + 1, output_end);
}

}  // namespace

std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  bool inside = false, only_blank = false;
  int number = 0;
  for (const std::string& line : lines_of(page)) {
    ++number;
    if (!line.starts_with(kFence)) {
      if (inside)
        blocks.back().text += line + "\n";
      else
        only_blank = only_blank && line.empty();
      continue;
    }
    if (!inside) {
      Block block{.line = number, .follows = only_blank};
      std::istringstream(line.substr(3)) >> block.language >> block.file;
      blocks.push_back(block);
    }
    inside = !inside;
    only_blank = true;
  }
  if (inside) throw std::runtime_error("the block of line " + std::to_string(blocks.back().line) + " has no end");
  return blocks;
}

std::string script_of(const std::string& commands) {
  static const std::regex exits(R"(# exits with ([0-9]+)\s*$)");
  std::string script = "exec 2>&1; set -e -o pipefail\n";
  for (const std::string& command : joined_lines(commands)) {
    std::smatch code;
    if (std::regex_search(command, code, exits))
      script += "code=0; { " + command + "\n} || code=$?; [ $code = " + code.str(1) +
                " ] || { echo \"exited with $code\"; exit 1; }\n";
    else
      script += command + "\n";
  }
  return script;
}

std::vector<std::string> ddprun_commands(const std::string& console) {
  static const std::regex prompt(R"(^[a-z0-9]*\$ ((?:[A-Z_]+=\S+ )*ddprun [^]*)$)");
  std::vector<std::string> commands;
  for (const std::string& line : joined_lines(console)) {
    std::smatch match;
    if (std::regex_search(line, match, prompt)) commands.push_back(match.str(1));
  }
  return commands;
}

bool shows(const std::string& page, const std::string& output) {
  // A run that was stopped exactly at an epoch's end has done no part of the next one.
  static const std::regex part(", and [0-9]+ % of the next");
  const Lines expected = lines_of(std::regex_replace(page, part, "")),
              there = lines_of(std::regex_replace(output, part, ""));
  return same_lines(expected.begin(), expected.end(), there.begin(), there.end());
}

std::vector<std::string> links_of(const std::string& page) {
  static const std::regex link(R"(\]\(([^)#:]+)\))");
  std::vector<std::string> files;
  for (std::sregex_iterator at(page.begin(), page.end(), link), end; at != end; ++at) files.push_back(at->str(1));
  return files;
}

}  // namespace ddprun::test
