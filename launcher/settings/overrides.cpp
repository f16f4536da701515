#include "launcher/settings/overrides.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <variant>

#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"

namespace ddprun::settings {
namespace {

bool is_key_character(unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/'; }

// Without "+" and "++", which add a key to hydra's configuration.
std::string_view without_plus(std::string_view word) {
  return word.substr(std::min(word.find_first_not_of('+'), word.size()));
}

bool is_override(std::string_view word) {
  const std::string_view key = without_plus(word).substr(0, without_plus(word).find('='));
  return word.find('=') != std::string_view::npos && !key.empty() && std::isalpha(static_cast<unsigned char>(key[0])) &&
         std::all_of(key.begin(), key.end(), is_key_character);
}

bool takes_next_word(const Table& table, const std::string& word) {
  if (word.size() < 2 || word[0] != '-' || word.find('=') != std::string::npos) return false;
  const Option* named = nullptr;
  if (word[1] == '-') {
    named = find_option(table, word.substr(2));
    if (const auto options = abbreviated(table, word.substr(2)); !named && options.size() == 1) named = options.front();
  } else {
    for (const Option& option : table.options)
      if (option.letter && option.letter == word[1] && word.size() == 2) named = &option;
  }
  return named && !named->flag();
}

const Option* target_of(const Table& table, const Option* option) {
  if (option && *option->stands_for) option = find_key(table, option->stands_for);
  return option && in_file(*option) ? option : nullptr;
}

// By its name, by another one, or as the only one with this last part of a key.
const Option* find_by_last_part(const Table& table, const std::string& name) {
  if (const Option* named = find_option(table, name); target_of(table, named)) return named;
  const Option* found = nullptr;
  for (const Option& option : table.options) {
    const std::string key = with_dashes(option.key);
    if (!in_file(option) || key.substr(key.rfind('.') + 1) != with_dashes(name)) continue;
    if (found) return nullptr;
    found = &option;
  }
  return found;
}

bool has_section(const Table& table, const std::string& section) {
  return std::any_of(table.groups.begin(), table.groups.end(),
                     [&](const Group* group) { return group->kind == Group::values && section == group->name; });
}

// [a,b] is a list for hydra.
std::string value_of(const Option& option, const std::string& text) {
  const bool list = option.member.takes == Takes::list && text.starts_with('[') && text.ends_with(']');
  return list ? text.substr(1, text.size() - 2) : text;
}

struct Resolved {
  enum By { value, on, off };
  Setting setting;
  By by = value;
};

Resolved resolve(const Table& table, Setting setting) {
  const Option& named = *setting.option;
  if (!*named.stands_for) return {std::move(setting)};
  Resolved::By by = Resolved::value;
  if (*named.sets) {
    const auto read = read_flag(setting.text);
    const bool* on = std::get_if<bool>(&read);
    const char* text = on && *on ? named.sets : named.sets_off;
    if (!on || !*text) return {std::move(setting)};  // wrong: said where values are checked
    setting.overrides = false;                       // fp16=true bf16=true is a contradiction
    by = *on ? Resolved::on : Resolved::off;
    setting.text = text;
  }
  setting.option = find_key(table, named.stands_for);
  return {std::move(setting), by};
}

}  // namespace

const Option* find_override(const Table& table, const std::string& key) {
  std::string dotted = key;
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  if (const Option* exact = find_key(table, dotted); exact && in_file(*exact)) return exact;
  const std::size_t dot = dotted.rfind('.');
  const Option* found = find_by_last_part(table, dotted.substr(dot + 1));
  if (!found || dot == std::string::npos) return found;
  const std::string section = dotted.substr(0, dot);
  const bool ours = has_section(table, section.substr(0, section.find('.')));
  return !ours || section == target_of(table, found)->group->name ? found : nullptr;
}

std::vector<std::string> take_overrides(const Table& table, std::vector<std::string>& words) {
  std::vector<std::string> overrides, rest;
  bool is_value = false, ended = false;
  for (std::string& word : words) {
    const bool taken = !is_value && !ended && is_override(word);
    ended = ended || (!is_value && word == "--");
    is_value = !is_value && takes_next_word(table, word);
    (taken ? overrides : rest).push_back(std::move(word));
  }
  words = std::move(rest);
  return overrides;
}

void add_overrides(const Table& table, const std::vector<std::string>& overrides, ParseResult& parsed) {
  for (const std::string& word : overrides) {
    const std::size_t equals = word.find('=');
    const std::string key(without_plus(word.substr(0, equals)));
    if (const Option* option = find_override(table, key)) {
      std::erase_if(parsed.settings, [&](const Setting& one) { return one.overrides && one.option == option; });
      parsed.settings.push_back(
          {option, value_of(*option, word.substr(equals + 1)), Origin::command_line, key, /*overrides=*/true});
      continue;
    }
    const Option* refused = find_option(table, key.substr(key.find_last_of("./") + 1));
    if (refused && *refused->refusal) {
      parsed.settings.push_back({refused, word.substr(equals + 1), Origin::command_line, key, /*overrides=*/true});
      continue;
    }
    const Option* near = nearest_key(table, key);
    parsed.mistakes.push_back(word + ": there is no key " + key +
                              (near ? "." + did_you_mean(near->file_key())
                                    : std::string("; ") + table.program + " --print-config lists them."));
  }
}

void resolve_other_names(const Table& table, std::vector<Setting>& settings) {
  std::vector<Resolved> resolved;
  for (Setting& setting : settings) resolved.push_back(resolve(table, std::move(setting)));
  settings.clear();
  for (auto one = resolved.begin(); one != resolved.end(); ++one) {
    const bool needless =
        one->by == Resolved::off && std::any_of(resolved.begin(), resolved.end(), [&](const Resolved& other) {
          const bool same = other.by == Resolved::off && &other < &*one && other.setting.text == one->setting.text;
          return other.setting.option == one->setting.option && (other.by == Resolved::on || same);
        });
    if (!needless) settings.push_back(one->setting);
  }
}

}  // namespace ddprun::settings
