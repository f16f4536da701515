#include "launcher/settings/config_file.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"

namespace ddprun::settings {
namespace {

class Reader {
 public:
  Reader(const Table& table, const std::string& name, const ReadExtraKey& read_extra_key)
      : table_(table), notes_(name), read_extra_key_(read_extra_key) {
    for (const Option& option : table.options)
      if (*option.key) sections_ = true;
  }

  ConfigFile read(const std::string& name, const std::string& text) {
    try {
      for (const auto& [key, node] : parse_toml(text, name)) read_entry(std::string(key.str()), node);
    } catch (const toml::parse_error& error) {
      notes_.add(error.source().begin.line,
                 toml_error_message(error, text) +
                     ". A value is a number, true, false, a string in quotes, or an array of these.");
    }
    file_.mistakes = notes_.take();
    return std::move(file_);
  }

 private:
  void read_entry(const std::string& key, const toml::node& node) {
    if (read_extra_key_ && read_extra_key_(key, node, notes_)) return;
    const toml::table* section = sections_ ? node.as_table() : nullptr;
    if (!section) return read_value(key, node);
    for (const auto& [name, value] : *section) read_value(key + "." + std::string(name.str()), value);
  }

  void read_value(const std::string& key, const toml::node& node) {
    const Option* option = find_key(table_, key);
    if (!option || option->group->kind == Group::hidden) return notes_.add(node, unknown(key));
    if (option->group->kind == Group::actions)
      return notes_.add(node, key + " cannot be set in a file; pass --" + option->name + " on the command line.");
    for (const Setting& earlier : file_.settings)
      if (earlier.option == option)
        return notes_.add(node, key + " is set twice: " + earlier.place + " has it, too. Leave out one of them.");
    if (const auto text = value(key, *option, node))
      file_.settings.push_back({option, *text, Origin::file, notes_.place(node)});
  }

  std::string unknown(const std::string& key) const {
    const std::string none = "there is no key " + visible(key);
    if (const Option* near = nearest_key(table_, key)) return none + "." + did_you_mean(near->file_key());
    return none + "; " + table_.program + " --print-config lists them.";
  }

  std::optional<std::string> value(const std::string& key, const Option& option, const toml::node& node) {
    const bool list = option.list || option.member.takes == Takes::list;
    if (const auto text = scalar(node, option.flag() || option.is_switch)) return text;
    if (const auto* array = node.as_array(); array && list) return joined_array(key, option, *array);
    notes_.add(node, key + " is " + describe_value(node) + "; it takes " +
                         (option.flag() ? "true or false."
                          : list        ? "a string, a number, or an array of them."
                                        : "a string or a number."));
    return {};
  }

  std::optional<std::string> joined_array(const std::string& key, const Option& option, const toml::array& array) {
    const bool commas = std::string_view(option.name).ends_with("-filters");  // these options double commas
    std::string all;
    for (const toml::node& node : array) {
      const auto text = scalar(node, false);
      if (!text)
        return notes_.add(node, key + " holds " + describe_value(node) + "; it takes strings or numbers."),
               std::nullopt;
      if (option.member.takes == Takes::list && text->find(',') != std::string::npos)
        return notes_.add(node, key + " holds " + describe_value(node) +
                                    ", and a comma separates two values: write two strings."),
               std::nullopt;
      if (!all.empty()) all += ',';
      for (const char c : *text) all += c == ',' && commas ? std::string(",,") : std::string(1, c);
    }
    return all;
  }

  const Table& table_;
  FileNotes notes_;
  const ReadExtraKey& read_extra_key_;
  bool sections_ = false;
  ConfigFile file_;
};

// "7" but not "007", which would change as a number.
bool is_plain_number(const std::string& text) {
  const bool digits = !text.empty() && text.size() < 18 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits && (text == "0" || text.front() != '0');
}

std::string toml_value(const Option& option, const std::string& text) {
  switch (option.member.takes) {
    case Takes::flag:
      return is_true(text) ? "true" : "false";
    case Takes::number:  // never an integer: those have no -0 and end at 2^63
      return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
    case Takes::list:
      return toml_array(text.empty() ? std::vector<std::string>() : split(text, ','));
    case Takes::whole_number:
      return text;
    case Takes::text:
      break;
  }
  return is_plain_number(text) ? text : toml_string(text);
}

// A text from elsewhere as a value of TOML: a string if it is no value of the option.
std::string toml_value_of_any(const Option& option, const std::string& text) {
  const auto number = whole_text<double>(text);
  if (option.member.takes == Takes::number)
    return number && std::isfinite(*number) ? toml_value(option, text_of_number(*number)) : toml_string(text);
  const bool fits = option.member.takes == Takes::flag           ? std::holds_alternative<bool>(read_flag(text))
                    : option.member.takes == Takes::whole_number ? is_plain_number(text)
                                                                 : true;
  return fits ? toml_value(option, text) : toml_string(text);
}

// What was set or follows from a setting, else the default.
std::string text_in_force(const Table& table, const Option& option, const Setting* setting, const void* config) {
  const auto get = option.member.get;
  if (get && (setting || get(config, option) != get(table.defaults, option))) return get(config, option);
  if (setting) return setting->text;
  return option.flag() ? "false" : default_of(table, option);
}

std::string line(const Table& table, const Option& option, const Setting* setting, const void* config,
                 const std::function<std::string(const Option&)>& unset) {
  const std::string key = option.file_key(), name = key.substr(key.rfind('.') + 1);
  const std::string text = text_in_force(table, option, setting, config);
  if (setting || !text.empty())
    return commented(name + " = " + toml_value(option, text), setting ? setting->place : "default");
  const std::string why = unset ? unset(option) : "";
  return commented("# " + name, why.empty() ? "not set" : why);
}

}  // namespace

void FileNotes::add(std::uint32_t line, const std::string& sentence) {
  notes_.emplace_back(line, name_ + ":" + std::to_string(line) + ": " + sentence);
}

// toml++ returns keys in alphabetical order; users read from the top.
std::vector<std::string> FileNotes::take() {
  std::stable_sort(notes_.begin(), notes_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> sentences;
  for (const auto& [line, sentence] : notes_) sentences.push_back(visible(sentence));
  return sentences;
}

ConfigFile read_config_file(const Table& table, const std::string& name, const std::string& text,
                            const ReadExtraKey& read_extra_key) {
  return Reader(table, name, read_extra_key).read(name, text);
}

std::optional<std::string> scalar(const toml::node& node, bool truth) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return toml_number(number->get());
  if (const auto* yes = node.as_boolean(); yes && truth) return yes->get() ? "true" : "false";
  return {};
}

std::string print_settings(const Table& table, const std::vector<Setting>& settings, const void* config,
                           const std::function<std::string(const Option&)>& unset) {
  std::string out;
  for (const Group* group : table.groups) {
    if (group->kind != Group::values) continue;
    bool first = true;
    for (const Option& option : table.options) {
      if (option.group != group) continue;
      if (std::exchange(first, false))
        out += (out.empty() ? "" : "\n") +
               (*option.key ? "[" + std::string(group->name) + "]\n" : "# " + std::string(group->name) + "\n");
      out += line(table, option, in_force(settings, option), config, unset);
    }
  }
  return out;
}

std::string print_changed(const Table& table, const std::vector<Setting>& settings, const void* config,
                          const std::function<std::string(const Option&)>& unset) {
  std::string out;
  for (const Option& option : table.options) {
    const Setting* setting = option.group->kind == Group::values ? in_force(settings, option) : nullptr;
    const bool changed = setting && text_in_force(table, option, setting, config) !=
                                        text_in_force(table, option, nullptr, table.defaults);
    const bool told = !setting && option.group->kind == Group::values && unset && !unset(option).empty();
    if (changed || told) out += line(table, option, setting, config, unset);
  }
  return out;
}

std::string print_given(const Table& table, const std::vector<Setting>& settings) {
  std::string out;
  for (const Group* group : table.groups) {
    bool first = true;
    for (const Option& option : table.options) {
      const Setting* setting = option.group == group ? in_force(settings, option) : nullptr;
      if (!setting) continue;
      const std::string key = option.file_key();
      if (std::exchange(first, false) && *option.key)
        out += (out.empty() ? "[" : "\n[") + std::string(group->name) + "]\n";
      out += key.substr(key.rfind('.') + 1) + " = " + toml_value_of_any(option, setting->text) + "\n";
    }
  }
  return out;
}

// A file's name may contain anything, but a comment ends with its line.
std::string commented(std::string line, const std::string& comment) {
  constexpr std::size_t kCommentColumn = 44;
  if (line.size() < kCommentColumn) line.resize(kCommentColumn, ' ');
  return line + "  # " + visible(comment) + "\n";
}

std::string toml_array(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(toml_string(text));
  return "[" + joined(quoted, ", ") + "]";
}

std::string toml_key(const std::string& name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
  return bare ? name : toml_string(name);
}

}  // namespace ddprun::settings
