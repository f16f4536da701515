#include "trainer/config/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "rendezvous/base/spelling.h"
#include "rendezvous/base/toml.h"

namespace ddprun {
namespace {

// "must be at least 1", as the rest of a sentence.
std::optional<std::string> out_of_range(const SettingRow& row, double value) {
  if (std::isnan(value)) return "must be a number";
  if (row.above_min ? !(value > row.min) : !(value >= row.min))
    return std::string("must be ") + (row.above_min ? "above " : "at least ") + toml_number(row.min);
  if (!(value <= row.max)) return "must be at most " + toml_number(row.max);
  return {};
}

template <class Number>
std::optional<std::string> read_number(const SettingRow& row, const std::string& text, Number* to) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = std::is_integral_v<Number>;
  if (error == std::errc::result_out_of_range) return "but that is too large";
  if (error != std::errc() || end != text.data() + text.size())
    return whole ? "takes a whole number" : "takes a number";
  if (const auto why = out_of_range(row, static_cast<double>(value))) return "but " + *why;
  *to = value;
  return {};
}

std::optional<std::string> read_choice(const SettingRow& row, const std::string& text, std::string* to) {
  if (!row.choices.empty() && std::find(row.choices.begin(), row.choices.end(), text) == row.choices.end()) {
    std::vector<std::string> words;
    std::copy_if(row.choices.begin(), row.choices.end(), std::back_inserter(words),
                 [](const std::string& word) { return !word.empty(); });
    const std::string near = nearest(text, words);
    return "takes " + listed(words) + (near.empty() ? "" : "; did you mean " + near + "?");
  }
  *to = text;
  return {};
}

// The rest of the sentence "--lr is 'fast' ...".
std::optional<std::string> read(const SettingRow& row, const std::string& text, Place place) {
  struct Reader {
    const SettingRow& row;
    const std::string& text;
    std::optional<std::string> operator()(bool* to) const {
      if (text != "true" && text != "false") return "takes true or false";
      *to = text == "true";
      return {};
    }
    std::optional<std::string> operator()(std::int64_t* to) const { return read_number(row, text, to); }
    std::optional<std::string> operator()(std::uint64_t* to) const { return read_number(row, text, to); }
    std::optional<std::string> operator()(double* to) const { return read_number(row, text, to); }
    std::optional<std::string> operator()(std::string* to) const { return read_choice(row, text, to); }
    std::optional<std::string> operator()(std::vector<std::string>* to) const {
      *to = text.empty() ? std::vector<std::string>{} : split(text, ',');
      if (std::find(to->begin(), to->end(), "") == to->end()) return {};
      return "has an empty name between its commas";
    }
  };
  return std::visit(Reader{row, text}, place);
}

}  // namespace

const SettingRow* find_setting(const std::string& key) {
  const auto& rows = setting_rows();
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const SettingRow& row) { return row.key == key; });
  return it == rows.end() ? nullptr : &*it;
}

std::string unknown_setting(const std::string& key) {
  std::vector<std::string> keys;
  const std::string name = key.substr(key.rfind('.') + 1);
  for (const SettingRow& row : setting_rows()) {
    const std::string known = row.key;
    if (known.substr(known.find('.') + 1) == name) return " Did you mean " + known + "?";  // in another section
    keys.push_back(known);
  }
  const std::string near = nearest(key, keys);
  return near.empty() ? " `train --print-config` lists them all." : " Did you mean " + near + "?";
}

std::optional<std::string> apply(const Setting& setting, Options& options) {
  if (setting.text == kMustBeGiven) {
    const std::string flag = setting.row->flag;
    const std::string word = flag.starts_with("--") ? flag + " " + setting.row->value + " or "
                             : flag.empty()         ? ""
                                                    : "the word " + flag + " or ";
    return setting.origin + " is ???, a value that must be given: pass " + word + "--set " + setting.row->key +
           "=VALUE.";
  }
  const auto why = read(*setting.row, setting.text, setting.row->place(options));
  if (!why) return {};
  const bool number = why->starts_with("but ");
  return setting.origin + " is " + (number ? setting.text + " " : "'" + visible(setting.text) + "' but ") + *why +
         (why->ends_with("?") ? "" : ".");
}

std::string text_of(const SettingRow& row, const Options& options) {
  Options copy = options;
  struct Writer {
    std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
    std::string operator()(const std::int64_t* value) const { return std::to_string(*value); }
    std::string operator()(const std::uint64_t* value) const { return std::to_string(*value); }
    std::string operator()(const double* value) const { return toml_number(*value); }
    std::string operator()(const std::string* value) const { return *value; }
    std::string operator()(const std::vector<std::string>* value) const {
      std::string text;
      for (const std::string& one : *value) text += (text.empty() ? "" : ",") + one;
      return text;
    }
  };
  return std::visit(Writer{}, row.place(copy));
}

}  // namespace ddprun
