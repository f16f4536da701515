#include "launcher/settings/option.h"

#include <algorithm>

#include "launcher/settings/values.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::settings {
namespace {

// The first letter decides for most: a launch asks some thousand times.
bool is(const char* name, const std::string& dashed) { return *name == dashed.front() && dashed == name; }

bool has_name(const Option& option, const std::string& dashed) {
  return !dashed.empty() && (is(option.name, dashed) || is(option.alias, dashed));
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string must_be_given(const Setting& setting) {
  const Option& option = *setting.option;
  std::string how;
  if (option.positional) how = std::string("the word ") + option.name + " or ";
  if (*option.name && !option.positional) how = std::string("--") + option.name + "=" + option.value + " or ";
  return subject(setting) + " is ???, a value that must be given: pass " + how + "--set " + option.file_key() +
         "=VALUE.";
}

// A flag that stands for another option, and was not replaced by it (overrides.h).
std::string has_no_off(const Setting& setting) {
  return subject(setting) + " is '" + setting.text + "', and " + setting.option->stands_for +
         " has no value for that: leave it out, or set " + setting.option->stands_for + " itself.";
}

std::string refused(const Setting& setting) { return subject(setting) + " " + setting.option->refusal; }

// What is wrong with it; empty: the value is in `config`, if it is kept there.
std::string apply_one(const Setting& setting, void* config) {
  const Option& option = *setting.option;
  if (*option.refusal && (!option.flag() || is_true(setting.text))) {
    const bool accepted = option.member.set && option.member.set(config, option, setting.text).empty();
    return accepted ? "" : refused(setting);
  }
  if (setting.text == kMustBeGiven && setting.origin == Origin::file && *option.key) return must_be_given(setting);
  const std::string complaint = option.member.set ? option.member.set(config, option, setting.text) : "";
  if (*option.sets && complaint.empty()) return has_no_off(setting);
  return complaint.empty() ? "" : invalid_value(subject(setting), setting.text, complaint);
}

}  // namespace

std::string subject(const Setting& setting) {
  switch (setting.origin) {
    case Origin::standard:
      return std::string("--") + setting.option->name;
    case Origin::file:
      return setting.place + ": " + setting.option->file_key();
    case Origin::scheduler:
      return setting.place.starts_with('/') ? setting.place : setting.place + " in the environment";
    case Origin::environment:
      return setting.place + " in the environment";
    case Origin::command_line:
      break;
  }
  return setting.place;
}

const Setting* in_force(const std::vector<Setting>& settings, const Option& option) {
  const Setting* found = nullptr;
  for (const Setting& setting : settings)
    if (setting.option == &option && (!found || setting.origin >= found->origin)) found = &setting;
  return found;
}

std::vector<std::string> apply(const Table& table, const std::vector<Setting>& settings, void* config) {
  std::vector<std::string> mistakes;
  for (const Option& option : table.options)
    if (const Setting* setting = in_force(settings, option))
      if (std::string mistake = apply_one(*setting, config); !mistake.empty()) mistakes.push_back(std::move(mistake));
  return mistakes;
}

const Option& option(const Table& table, const std::string& name) {
  const Option* found = find_option(table, name);
  check(found, "the table has every option that the program asks for");
  return *found;
}

const Option* find_option(const Table& table, const std::string& name) {
  const std::string dashed = with_dashes(name);
  for (const Option& option : table.options)
    if (!option.positional && has_name(option, dashed)) return &option;
  return nullptr;
}

const Option* find_key(const Table& table, const std::string& key) {
  const std::string dashed = with_dashes(key);
  for (const Option& option : table.options)
    if (*option.key ? with_dashes(option.key) == dashed : has_name(option, dashed)) return &option;
  return nullptr;
}

std::vector<const Option*> abbreviated(const Table& table, const std::string& name) {
  const std::string dashed = with_dashes(name);
  std::vector<const Option*> found;
  for (const Option& option : table.options)
    if (option.group->kind != Group::hidden && !option.positional &&
        (std::string_view(option.name).starts_with(dashed) || std::string_view(option.alias).starts_with(dashed)))
      found.push_back(&option);
  return found;
}

const Option* nearest_option(const Table& table, const std::string& name) {
  const std::string dashed = with_dashes(name);
  std::vector<std::string> names;
  for (const Option& option : table.options) {
    const std::vector<std::string> synonyms = split(option.synonyms, ',');
    if (!dashed.empty() && std::find(synonyms.begin(), synonyms.end(), dashed) != synonyms.end()) return &option;
    if (option.group->kind == Group::hidden && !*option.stands_for) continue;
    if (*option.key && with_dashes(last_part(option.key)) == dashed) return &option;
    if (option.positional) continue;
    for (const char* one : {option.name, option.alias})
      if (*one) names.emplace_back(one);
  }
  const std::string near = nearest(dashed, names);
  return near.empty() ? nullptr : find_option(table, near);
}

const Option* nearest_key(const Table& table, const std::string& key) {
  const std::string name = with_dashes(last_part(key));
  std::vector<std::string> keys;
  const Option* elsewhere = nullptr;  // of that name in another section, the one whose section is nearest
  const auto letters = [&](const Option& option) { return distance(with_dashes(option.key), with_dashes(key)); };
  for (const Option& option : table.options) {
    if (*option.key && with_dashes(last_part(option.key)) == name &&
        (!elsewhere || letters(option) < letters(*elsewhere)))
      elsewhere = &option;
    if (in_file(option)) keys.push_back(with_dashes(option.file_key()));
  }
  if (elsewhere) return elsewhere;
  if (const std::string near = nearest(with_dashes(key), keys); !near.empty()) return find_key(table, near);
  const Option* near = nearest_option(table, name);
  if (near && *near->stands_for) near = find_key(table, near->stands_for);
  return near && in_file(*near) ? near : nullptr;
}

bool in_file(const Option& option) { return option.group->kind == Group::values; }

std::string default_of(const Table& table, const Option& option) {
  if (*option.default_value || option.flag()) return option.default_value;
  std::string text = option.member.get ? option.member.get(table.defaults, option) : "";
  if (option.member.takes == Takes::whole_number && option.min >= 0 && text.starts_with('-')) return "";  // means none
  return text;
}

}  // namespace ddprun::settings
