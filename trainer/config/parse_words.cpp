#include "trainer/config/parse_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <utility>

#include "launcher/settings/verb_help.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::train {
namespace {

// The words that no option takes: an option that there is not comes before the value that may have been meant for it.
std::string unexpected(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const std::string& word) { return word.starts_with("--"); });
  if (option == extras.end()) return "";
  std::vector<std::string> known;
  for (const CLI::Option* one : app.get_options())
    for (const std::string& name : one->get_lnames()) known.push_back("--" + name);
  const std::string name = option->substr(0, option->find('='));
  return "there is no option " + visible(name) + "." + did_you_mean(name, known);
}

}  // namespace

std::optional<EarlyExit> parse_words(CLI::App& app, const std::string& usage, std::vector<std::string> words,
                                     const std::function<EarlyExit(const std::string& sentence)>& refused) {
  app.set_help_flag("-h,--help", "prints this");
  app.formatter(settings::verb_help(usage));
  std::reverse(words.begin(), words.end());  // CLI11 reads a vector from its end
  try {
    app.parse(std::move(words));
    return {};
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    if (app.exit(error, out, err) == 0) return EarlyExit{0, out.str()};
    const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const std::string sentence = extra ? unexpected(app) : "";
    return refused(sentence.empty() ? std::string(error.what()) + "." : sentence);
  }
}

}  // namespace ddprun::train
