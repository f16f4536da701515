#include "launcher/cli.h"

#include "launcher/completion.h"
#include "launcher/config_file.h"
#include "launcher/environment_twins.h"
#include "launcher/help.h"
#include "launcher/man_page.h"
#include "launcher/options.h"
#include "launcher/spelling.h"
#include "launcher/values.h"
#include "launcher/words.h"

namespace ddprun {
namespace {

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}
void append(std::vector<Setting>& to, const std::vector<Setting>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// --help, --version and --generate: what to print instead of doing anything.
void answer(const std::vector<Setting>& settings, Asked& asked) {
  if (const Setting* help = in_force(settings, option("help")))
    asked.answer = help_text(help->text);
  else if (in_force(settings, option("version")))
    asked.answer = version_text();
  else if (const Setting* what = in_force(settings, option("generate")))
    asked.answer = what->text == "man" ? man_page() : completion(what->text);
}

void read_file(const Outside& outside, Asked& asked) {
  const Setting* named = in_force(asked.config.settings, option("config"));
  if (!named || !outside.read_file) return;
  if (named->text.empty())
    return asked.mistakes.push_back(nonsense(subject(*named), "", "it takes the name of a file"));
  const auto content = outside.read_file(named->text);
  if (const auto* failed = std::get_if<Unreadable>(&content))
    return asked.mistakes.push_back(subject(*named) + " is '" + named->text +
                                    "', which cannot be read: " + failed->why + ".");
  ConfigFile file = read_config_file(named->text, std::get<FileText>(content).text);
  append(asked.config.settings, file.settings);
  append(asked.mistakes, file.mistakes);
  asked.config.env = std::move(file.env);
  if (!asked.config.program.empty() || file.program.empty()) return;
  asked.config.program = std::move(file.program);
  asked.config.program_place = file.program_place;
}

bool says_no(const std::string& flag) {
  const auto read = read_flag(flag);
  return std::holds_alternative<bool>(read) && !std::get<bool>(read);
}

void fill(Asked& asked) {
  for (const OptionRow& row : options()) {
    const Setting* setting = in_force(asked.config.settings, row);
    if (!setting || (!row.set && !*row.refusal)) continue;
    if (*row.refusal && row.flag() && says_no(setting->text)) continue;
    const std::string complaint = row.set ? row.set(asked.config, row, setting->text) : row.refusal;
    if (!complaint.empty()) asked.mistakes.push_back(refusal(*setting, complaint));
  }
}

}  // namespace

Asked parse(const std::vector<std::string>& arguments, const Outside& outside) {
  Asked asked;
  Words words = read_words(arguments);
  answer(words.settings, asked);
  if (!asked.answer.empty()) return asked;
  Twins twins = read_twins(outside.environment);
  asked.config.program = std::move(words.program);
  asked.mistakes = std::move(words.mistakes);
  append(asked.mistakes, twins.mistakes);
  append(asked.config.settings, words.settings);
  append(asked.config.settings, twins.settings);
  read_file(outside, asked);
  fill(asked);
  for (std::string& sentence : asked.mistakes) sentence = visible(sentence);
  return asked;
}

}  // namespace ddprun
