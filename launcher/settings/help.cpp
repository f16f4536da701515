#include "launcher/settings/help.h"

#include <cctype>

#include "rendezvous/base/spelling.h"

namespace ddprun::settings {
namespace {

constexpr std::size_t kWidth = 79;

// In roff '-' is a hyphen, '\' an escape, and a '.' or ''' at a line's start a request.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += std::string("\\&") + c;
    else
      out += c;
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }

std::string manual_heading(const Option& option) {
  std::string out = option.letter ? bold(std::string("-") + option.letter) + ", " : "";
  out += bold(std::string("--") + option.name);
  if (*option.alias) out += ", " + bold(std::string("--") + option.alias);
  if (option.is_switch) return out + "[=\\fI" + roff(option.value) + "\\fR]";
  return option.flag() ? out : out + " \\fI" + roff(option.value) + "\\fR";
}

std::string capital(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace

std::string option_heading(const Option& option) {
  if (option.positional) return option.name;
  if (!*option.name) return std::string("--set ") + option.key + "=" + option.value;
  std::string out = option.letter ? std::string("-") + option.letter + ", --" : "--";
  out += option.name;
  if (option.is_switch) return out + "[=" + option.value + "]";
  return option.flag() ? out : out + " " + option.value;
}

std::string option_sentence(const Table& table, const Option& option) {
  if (*option.refusal) return std::string("it ") + option.refusal;
  const std::string standard = default_of(table, option);
  return standard.empty() ? option.help : std::string(option.help) + " (default " + standard + ")";
}

std::string help_entry(const std::string& heading, const std::string& sentence, std::size_t column) {
  std::string out = "  " + heading;
  bool first = true;
  for (const std::string& line : wrapped(sentence, kWidth - column)) {
    const bool beside = first && out.size() + 1 < column;
    out += beside ? std::string(column - out.size(), ' ') + line : "\n" + std::string(column, ' ') + line;
    first = false;
  }
  return out + "\n";
}

std::string help_paragraphs(const std::string& text) {
  std::string out;
  for (const std::string& line : split(text.substr(0, text.find_last_not_of('\n') + 1), '\n'))
    for (const std::string& part : line.starts_with(' ') ? std::vector{line} : wrapped(line, kWidth))
      out += part + "\n";
  return out;
}

std::string help_entries(const Table& table, const Group& group) {
  std::string out;
  for (const Option& option : table.options)
    if (option.group == &group) out += help_entry(option_heading(option), option_sentence(table, option));
  return out;
}

const Group* find_group(const Table& table, const std::string& name) {
  for (const Group* group : table.groups)
    if (!name.empty() && std::string_view(group->name).starts_with(name)) return group;
  return nullptr;
}

std::string manual_entries(const Table& table) {
  std::string out;
  for (const Group* group : table.groups) {
    out += ".SS " + capital(group->name) + ": " + roff(group->title) + "\n";
    for (const Option& option : table.options) {
      if (option.group != group) continue;
      const std::string sentence = capital(option_sentence(table, option)) + (*option.refusal ? "" : ".");
      out += ".TP\n" + manual_heading(option) + "\n" + roff(sentence) + "\n";
      if (*option.more) out += roff(option.more) + "\n";
    }
  }
  return out;
}

}  // namespace ddprun::settings
