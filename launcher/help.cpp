#include "launcher/help.h"

#include "launcher/options.h"
#include "rendezvous/base/spelling.h"

namespace ddprun {
namespace {

constexpr std::size_t kWidth = 79, kTextColumn = 27;

std::string indented(std::string line, std::size_t column) { return std::string(column, ' ') + std::move(line); }

// "  --max-restarts N         how often ..."; a long heading has a line of its own.
std::string entry(const std::string& heading, const std::string& sentence, std::size_t column = kTextColumn) {
  std::string out = "  " + heading;
  bool first = true;
  for (const std::string& line : wrapped(sentence, kWidth - column)) {
    if (first && out.size() + 1 < column)
      out += indented(line, column - out.size());
    else
      out += "\n" + indented(line, column);
    first = false;
  }
  return out + "\n";
}

std::string overview() {
  std::string out =
      "usage: ddprun [options] PROGRAM [its arguments]\n"
      "Starts the workers of a distributed job and brings them back when one dies.\n"
      "PROGRAM is a .py file, any executable, or train, which comes along.\n\n";
  for (const OptionRow& row : options())
    if (*row.brief) out += entry(option_heading(row), row.brief);
  out +=
      "\nUnderscores work like dashes, PET_MAX_RESTARTS=5 in the environment as well.\n"
      "All options, group by group: ddprun --help GROUP\n";
  for (const GroupTitle& group : groups())
    if (group.group != Group::python) out += entry(group.name, group.title, 13);
  return out;
}

std::string sentence(const OptionRow& row) {
  return *row.refusal ? std::string("it ") + row.refusal : option_sentence(row);
}

std::string screen(const GroupTitle& group) {
  std::string out = std::string(group.name) + ": " + group.title + "\n\n";
  for (const OptionRow& row : options())
    if (row.group == group.group) out += entry(option_heading(row), sentence(row));
  return out;
}

}  // namespace

std::string option_heading(const OptionRow& row) {
  std::string out = row.letter ? std::string("-") + row.letter + ", --" + row.name : std::string("--") + row.name;
  return row.flag() ? out : out + " " + row.value;
}

std::string option_sentence(const OptionRow& row) {
  return *row.normally ? std::string(row.help) + " (default " + row.normally + ")" : row.help;
}

std::string help_text(const std::string& group) {
  for (const GroupTitle& title : groups())
    if (!group.empty() && std::string_view(title.name).starts_with(group)) return screen(title);
  return overview();
}

const char* version() { return DDPRUN_VERSION; }
std::string version_text() { return std::string("ddprun ") + version() + "\n"; }

}  // namespace ddprun
