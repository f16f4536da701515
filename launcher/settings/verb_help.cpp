#include "launcher/settings/verb_help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "launcher/settings/help.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::settings {
namespace {

// "-f, --follow", "--set KEY=VALUE", "FILE": the first of several spellings.
std::string verb_heading(const CLI::Option& option) {
  if (option.get_lnames().empty()) {
    std::string name = option.get_name();
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
    return name;
  }
  const auto& letters = option.get_snames();
  const std::string out = (letters.empty() ? "" : "-" + letters.front() + ", ") + "--" + option.get_lnames().front();
  if (option.get_type_size_max() == 0) return out;
  const std::string type = option.get_type_name();
  return out + " " + type.substr(0, type.find(':'));  // what CLI11 adds of a check
}

std::string verb_entry(const CLI::Option& option) {
  const std::string standard = option.get_default_str();
  return help_entry(verb_heading(option),
                    option.get_description() + (standard.empty() ? "" : " (default " + standard + ")"));
}

class VerbHelp : public CLI::FormatterBase {
 public:
  explicit VerbHelp(std::string usage) : usage_(std::move(usage)) {}

  std::string make_help(const CLI::App* app, std::string /*name*/, CLI::AppFormatMode /*mode*/) const override {
    std::string out = "usage: " + usage_ + "\n" + help_paragraphs(app->get_description()) + "\n";
    for (const CLI::Option* option : app->get_options())
      if (option != app->get_help_ptr() && !option->get_group().empty()) out += verb_entry(*option);
    out += verb_entry(*app->get_help_ptr());
    return app->get_footer().empty() ? out : out + "\n" + help_paragraphs(app->get_footer());
  }

 private:
  std::string usage_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> verb_help(const std::string& usage) { return std::make_shared<VerbHelp>(usage); }

}  // namespace ddprun::settings
