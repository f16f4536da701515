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

class Converter {
 public:
  explicit Converter(const Table& table) : table_(table) {}

  std::string convert(const std::string& text) {
    const std::vector<YamlLine> lines = yaml_lines(text);
    for (std::size_t i = 0; i < lines.size(); ++i) i = take(lines, i);
    std::string toml = print_given(table_, resolved());
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
      set(all, key, last == i ? yaml_value(value) : std::nullopt, value);
      return last;
    }
    if (i + 1 < lines.size() && is_item(lines[i + 1]) && lines[i + 1].indent >= line.indent) {
      const std::size_t end = end_of_list(lines, i + 1);
      set({line.number, lines[end].number}, key, list(lines, i + 1, end), "");
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
  std::vector<Section> sections_;
  std::vector<Setting> settings_;
  std::vector<LeftOut> left_out_;
};

}  // namespace

bool is_yaml(const std::string& file_name) { return file_name.ends_with(".yaml") || file_name.ends_with(".yml"); }

std::string toml_from_yaml(const Table& table, const std::string& text) { return Converter(table).convert(text); }

}  // namespace ddprun::settings
