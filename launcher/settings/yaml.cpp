#include "launcher/settings/yaml.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "launcher/settings/config_file.h"
#include "launcher/settings/overrides.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/toml.h"

namespace ddprun::settings {
namespace {

struct YamlLine {
  int number = 0;
  std::size_t indent = 0;
  std::string text = {};  // without indent and comment; not empty
};

// Where a key, a value or an item of a list begins: elsewhere a quote is a letter, as in /data/o'brien.
bool begins_here(std::string_view line, std::size_t at) {
  const std::string before = trimmed(line.substr(0, at));
  if (before.empty() || before == "-") return true;
  if (std::string_view("[{,").find(before.back()) != std::string_view::npos) return true;
  return before.back() == ':' && (line[at - 1] == ' ' || line[at - 1] == '\t');
}

// A "#" begins a comment outside of quotes, at a line's start or behind a blank.
std::string without_comment(const std::string& line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != 0)
      quote = line[i] == quote ? '\0' : quote;
    else if ((line[i] == '"' || line[i] == '\'') && begins_here(line, i))
      quote = line[i];
    else if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t'))
      return line.substr(0, i);
  }
  return line;
}

std::vector<YamlLine> yaml_lines(const std::string& text) {
  std::vector<YamlLine> lines;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    line = without_comment(line);
    const std::string bare = trimmed(line);
    if (!bare.empty() && bare != "---" && bare != "...") lines.push_back({number, line.find_first_not_of(' '), bare});
  }
  return lines;
}

bool is_quoted(const std::string& text) {
  return text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
}

// A plain or quoted value; empty: something else, such as a mapping, a text of several lines, an anchor or a tag.
std::optional<std::string> yaml_scalar(const std::string& text) {
  if (is_quoted(text)) {
    const std::string inside = text.substr(1, text.size() - 2);
    return inside.find_first_of("\\'\"") == std::string::npos ? std::optional(inside) : std::nullopt;
  }
  if (text.empty() || std::string_view("{}[]|>&*!%@`\"'").find(text.front()) != std::string_view::npos) return {};
  return text;
}

// [a, b] and plain values; the parts are joined with commas.
std::optional<std::string> yaml_value(const std::string& text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return yaml_scalar(text);
  std::string all;
  const std::string inside = trimmed(std::string_view(text).substr(1, text.size() - 2));
  for (const std::string& part : inside.empty() ? std::vector<std::string>() : split(inside, ',')) {
    const auto item = yaml_scalar(trimmed(part));
    if (!item) return {};
    all += (all.empty() ? "" : ",") + *item;
  }
  return all;
}

bool is_null(const std::string& text) { return text == "null" || text == "~" || text == "Null" || text == "NULL"; }

bool is_item(const YamlLine& line) { return line.text == "-" || line.text.starts_with("- "); }

// The last line that belongs to this one: those below it are indented more.
std::size_t last_below(const std::vector<YamlLine>& lines, std::size_t i) {
  std::size_t last = i;
  while (last + 1 < lines.size() && lines[last + 1].indent > lines[i].indent) ++last;
  return last;
}

// YAML's further words for true and false.
std::string flag_word(const Option& option, const std::string& text) {
  if (!option.flag()) return text;
  return text == "on" || text == "On" || text == "True"      ? "true"
         : text == "off" || text == "Off" || text == "False" ? "false"
                                                             : text;
}

std::size_t digits_at(std::string_view text) { return std::min(text.find_first_not_of("0123456789"), text.size()); }

// -1, 0.5, 1e-3; neither 007 nor .5.
bool is_toml_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::size_t whole = digits_at(text);
  if (whole == 0 || (whole > 1 && text.front() == '0')) return false;
  text.remove_prefix(whole);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::size_t fraction = digits_at(text);
    if (fraction == 0) return false;
    text.remove_prefix(fraction);
  }
  if (!text.starts_with('e') && !text.starts_with('E')) return text.empty();
  text.remove_prefix(1);
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && digits_at(text) == text.size();
}

// In YAML's sense no text.
bool is_plain_value(const std::string& text) { return is_toml_number(text) || text == "true" || text == "false"; }

std::optional<std::string> toml_from_scalar(const std::string& text) {
  const auto scalar = yaml_scalar(text);
  if (!scalar) return {};
  return !is_quoted(text) && is_plain_value(*scalar) ? *scalar : toml_string(*scalar);
}

// Beside a text numbers are texts, too: ["train", "--lr", "0.1"].
std::optional<std::string> toml_from_items(const std::vector<std::string>& items) {
  const bool plain = std::all_of(items.begin(), items.end(), is_plain_value);
  std::vector<std::string> all;
  for (const std::string& item : items) {
    const bool mapping = !is_quoted(item) && (item.find(": ") != std::string::npos || item.ends_with(':'));
    const auto scalar = mapping ? std::nullopt : yaml_scalar(item);
    if (!scalar) return {};
    all.push_back(plain ? *scalar : toml_string(*scalar));
  }
  return "[" + joined(all, ", ") + "]";
}

std::optional<std::string> toml_from_value(const std::string& text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return toml_from_scalar(text);
  const std::string inside = trimmed(std::string_view(text).substr(1, text.size() - 2));
  std::vector<std::string> items;
  for (const std::string& part : inside.empty() ? std::vector<std::string>() : split(inside, ','))
    items.push_back(trimmed(part));
  return toml_from_items(items);
}

class Converter {
 public:
  Converter(const Table& table, OtherKeys other_keys) : table_(table), other_keys_(other_keys) {}

  std::string convert(const std::string& text) {
    const std::vector<YamlLine> lines = yaml_lines(text);
    for (std::size_t i = 0; i < lines.size(); ++i) i = take(lines, i);
    std::string toml = print_given(table_, resolved()) + others_;
    std::stable_sort(left_out_.begin(), left_out_.end(),
                     [](const LeftOut& a, const LeftOut& b) { return a.lines.first < b.lines.first; });
    for (const LeftOut& one : left_out_) toml += comment(one);
    return toml;
  }

 private:
  struct Section {
    std::size_t indent;
    std::string path;
  };
  struct Lines {
    int first, last;
  };
  struct LeftOut {
    Lines lines;
    std::string why;
  };

  // Takes line i and those that belong to it; returns the last of them.
  std::size_t take(const std::vector<YamlLine>& lines, std::size_t i) {
    const YamlLine& line = lines[i];
    const std::size_t colon = colon_of(line.text), last = last_below(lines, i);
    const Lines all{line.number, lines[last].number};
    while (!sections_.empty() && sections_.back().indent >= line.indent) sections_.pop_back();
    if (is_item(line) || colon == std::string::npos) {
      leave_out(all, "it is not 'key: value'");
      return last;
    }
    const std::string key = path_of(yaml_scalar(line.text.substr(0, colon)).value_or("?"));
    const std::string value = trimmed(std::string_view(line.text).substr(colon + 1));
    if (!value.empty()) {
      if (is_other(key))
        keep(all, key, last == i ? toml_from_value(value) : std::nullopt, value);
      else
        set(all, key, last == i ? yaml_value(value) : std::nullopt, value);
      return last;
    }
    if (i + 1 < lines.size() && is_item(lines[i + 1]) && lines[i + 1].indent >= line.indent) {
      const std::size_t end = end_of_list(lines, i + 1);
      const Lines whole{line.number, lines[end].number};
      if (is_other(key))
        keep(whole, key, toml_from_list(lines, i + 1, end), "");
      else
        set(whole, key, list(lines, i + 1, end), "");
      return end;
    }
    sections_.push_back({line.indent, key});
    return i;
  }

  // The end of a line's key.
  static std::size_t colon_of(const std::string& text) {
    const std::size_t colon = text.find(": ");
    return colon != std::string::npos ? colon : text.ends_with(':') ? text.size() - 1 : colon;
  }
  std::string path_of(const std::string& key) const {
    return sections_.empty() ? key : sections_.back().path + "." + key;
  }
  void leave_out(Lines lines, const std::string& why) { left_out_.push_back({lines, why}); }
  static std::string comment(const LeftOut& one) {
    const std::string first = std::to_string(one.lines.first), last = std::to_string(one.lines.last);
    const std::string subject = first == last ? "line " + first + " is" : "lines " + first + " to " + last + " are";
    return "# " + subject + " left out: " + visible(one.why) + "\n";
  }

  static std::size_t end_of_list(const std::vector<YamlLine>& lines, std::size_t first) {
    std::size_t end = last_below(lines, first);
    while (end + 1 < lines.size() && is_item(lines[end + 1]) && lines[end + 1].indent == lines[first].indent)
      end = last_below(lines, end + 1);
    return end;
  }
  bool is_other(const std::string& key) const {
    if (other_keys_ == OtherKeys::are_left_out) return false;
    const Option* option = key.find('.') == std::string::npos ? find_option(table_, key) : nullptr;
    return !option || !in_file(*option);
  }

  void keep(Lines lines, const std::string& key, const std::optional<std::string>& value, const std::string& text) {
    if (is_null(text)) return;
    if (!value) return leave_out(lines, "the value of " + key + " is not a plain one");
    std::vector<std::string> parts;
    for (const std::string& part : split(key, '.')) parts.push_back(toml_key(part));
    others_ += joined(parts, ".") + " = " + *value + "\n";
  }

  // An item of a list each; empty: one is not plain.
  static std::optional<std::string> toml_from_list(const std::vector<YamlLine>& lines, std::size_t first,
                                                   std::size_t end) {
    std::vector<std::string> items;
    for (std::size_t i = first; i <= end; ++i) {
      if (!is_item(lines[i]) || lines[i].indent != lines[first].indent) return {};
      items.push_back(trimmed(std::string_view(lines[i].text).substr(1)));
    }
    return toml_from_items(items);
  }

  // The items joined with commas; empty: one of them is not plain, or has a comma itself.
  static std::optional<std::string> list(const std::vector<YamlLine>& lines, std::size_t first, std::size_t end) {
    std::string all;
    for (std::size_t i = first; i <= end; ++i) {
      const std::string text = trimmed(std::string_view(lines[i].text).substr(1));
      const bool plain = is_item(lines[i]) && lines[i].indent == lines[first].indent;
      const auto item = plain && colon_of(text) == std::string::npos ? yaml_scalar(text) : std::nullopt;
      if (!item || item->find(',') != std::string::npos) return {};
      all += (i == first ? "" : ",") + *item;
    }
    return all;
  }

  void set(Lines lines, const std::string& key, const std::optional<std::string>& value, const std::string& text) {
    if (is_null(text)) return;  // the default
    const Option* option = find_override(table_, key);
    if (!option) {
      const Option* other = find_option(table_, key.substr(key.rfind('.') + 1));
      const Option* near = nearest_key(table_, key);
      return leave_out(lines, other && *other->refusal ? key + " " + other->refusal
                              : near                   ? key + " is no key; " + near->file_key() + " is the nearest"
                                                       : key + " is no key");
    }
    if (!value) return leave_out(lines, "the value of " + key + " is not a plain one");
    settings_.push_back({option, flag_word(*option, *value), Origin::file, std::to_string(lines.first)});
  }

  // Those that TOML can have: of one option, the first.
  std::vector<Setting> resolved() {
    resolve_other_names(table_, settings_);
    std::vector<Setting> result;
    for (const Setting& setting : settings_) {
      const int number = std::stoi(setting.place);
      if (*setting.option->stands_for)
        leave_out({number, number}, std::string(setting.option->name) + " is '" + setting.text + "', and " +
                                        setting.option->stands_for + " has no value for that");
      else if (in_force(result, *setting.option))
        leave_out({number, number}, std::string(setting.option->file_key()) + " is set above");
      else
        result.push_back(setting);
    }
    return result;
  }

  const Table& table_;
  const OtherKeys other_keys_;
  std::string others_ = {};  // lines of TOML
  std::vector<Section> sections_;
  std::vector<Setting> settings_;
  std::vector<LeftOut> left_out_;
};

}  // namespace

bool is_yaml(const std::string& file_name) { return file_name.ends_with(".yaml") || file_name.ends_with(".yml"); }

std::string yaml_refusal(const std::string& file_name, const char* program) {
  const std::string toml = file_name.substr(0, file_name.rfind('.')) + ".toml";
  return file_name + " is YAML, and only TOML is read. This converts it: " + program + " --config " +
         shell_word(file_name) + " --print-config > " + shell_word(toml);
}

std::string toml_from_yaml(const Table& table, const std::string& text, OtherKeys other_keys) {
  return Converter(table, other_keys).convert(text);
}

}  // namespace ddprun::settings
