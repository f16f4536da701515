#include "launcher/environment_twins.h"

#include "launcher/options.h"
#include "rendezvous/base/spelling.h"

namespace ddprun {
namespace {

constexpr const char* kPrefix = "PET_";

// LOGLEVEL is a level of Python's: only two of them ask for more than usual.
std::string meaning(const std::string& variable, const std::string& text) {
  if (variable != "LOGLEVEL") return text;
  const std::string level = upper_case(text);
  return level == "INFO" || level == "DEBUG" ? "1" : "";
}

std::vector<std::string> variables(const OptionRow& row) {
  std::vector<std::string> names{environment_twin(row.name)};
  if (*row.alias) names.push_back(environment_twin(row.alias));
  if (*row.also_in) names.push_back(row.also_in);
  return names;
}

void read_twin(const OptionRow& row, const Environment& environment, Twins& twins) {
  for (const std::string& name : variables(row)) {
    const auto found = environment.find(name);
    const std::string text = found == environment.end() ? "" : meaning(name, found->second);
    if (!text.empty()) return twins.settings.push_back({&row, text, Origin::environment, name});
  }
}

void note_typo(const std::string& variable, Twins& twins) {
  const std::string name = variable.substr(std::string_view(kPrefix).size());
  std::vector<std::string> known;
  for (const OptionRow& row : options())
    if (in_environment(row)) {
      const std::vector<std::string> names = variables(row);
      known.insert(known.end(), names.begin(), names.end());
    }
  for (const std::string& twin : known)
    if (twin == variable) return;
  if (const std::string near = nearest(variable, known); near.starts_with(kPrefix) && distance(variable, near) <= 2)
    twins.mistakes.push_back(variable + " in the environment is no option. Did you mean " + near + "?");
}

}  // namespace

Twins read_twins(const Environment& environment) {
  Twins twins;
  auto entry = environment.lower_bound(kPrefix);
  for (; entry != environment.end() && entry->first.starts_with(kPrefix); ++entry) note_typo(entry->first, twins);
  for (const OptionRow& row : options())
    if (in_environment(row)) read_twin(row, environment, twins);
  return twins;
}

}  // namespace ddprun
