#include "trainer/config/config_file.h"

#include <algorithm>
#include <optional>

#include "rendezvous/base/spelling.h"
#include "rendezvous/base/toml.h"

namespace ddprun {
namespace {

constexpr std::size_t kCommentColumn = 40;

// What a row takes, for a person.
struct Kind {
  std::string operator()(bool*) const { return "true or false"; }
  std::string operator()(std::int64_t*) const { return "a whole number"; }
  std::string operator()(std::uint64_t*) const { return "a whole number"; }
  std::string operator()(double*) const { return "a number"; }
  std::string operator()(std::string*) const { return "a text"; }
  std::string operator()(std::vector<std::string>*) const { return "an array of texts"; }
};

// A value of the row's own type, as text.
struct Value {
  const toml::node& node;
  std::optional<std::string> operator()(bool*) const {
    if (const auto* yes = node.as_boolean()) return yes->get() ? "true" : "false";
    return {};
  }
  std::optional<std::string> operator()(std::int64_t*) const {
    if (const auto* number = node.as_integer()) return std::to_string(number->get());
    return {};
  }
  std::optional<std::string> operator()(std::uint64_t*) const { return (*this)(static_cast<std::int64_t*>(nullptr)); }
  std::optional<std::string> operator()(double*) const {
    if (const auto* number = node.as_floating_point()) return toml_number(number->get());
    return (*this)(static_cast<std::int64_t*>(nullptr));
  }
  std::optional<std::string> operator()(std::string*) const {
    if (const auto* text = node.as_string()) return text->get();
    return {};
  }
  std::optional<std::string> operator()(std::vector<std::string>*) const {
    const auto* array = node.as_array();
    if (!array) return {};
    std::string joined;
    for (const toml::node& element : *array) {
      const auto* text = element.as_string();
      if (!text || text->get().find(',') != std::string::npos) return {};
      joined += (joined.empty() ? "" : ",") + text->get();
    }
    return joined;
  }
};

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  ConfigFile read(const std::string& text) {
    try {
      for (const auto& [key, node] : parse_toml(text, name_)) read_section(std::string(key.str()), node);
    } catch (const toml::parse_error& error) {
      note(error.source().begin.line, not_toml(error, text) + ".");
    }
    std::stable_sort(mistakes_.begin(), mistakes_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [line, sentence] : mistakes_) file_.mistakes.push_back(std::move(sentence));
    return std::move(file_);
  }

 private:
  std::string place(std::uint32_t line) const { return name_ + ":" + std::to_string(line) + ": "; }
  void note(std::uint32_t line, const std::string& sentence) { mistakes_.emplace_back(line, place(line) + sentence); }

  void read_section(const std::string& section, const toml::node& node) {
    if (const auto* table = node.as_table()) {
      for (const auto& [key, value] : *table) read_value(section + "." + std::string(key.str()), value);
      return;
    }
    note(node.source().begin.line,
         section + " stands outside a section, as [training] begins one." + unknown_setting(section));
  }

  void read_value(const std::string& key, const toml::node& node) {
    const std::uint32_t line = node.source().begin.line;
    const SettingRow* row = find_setting(key);
    if (!row) return note(line, "there is no setting " + visible(key) + "." + unknown_setting(key));
    Options options;
    const Place place_of_row = row->place(options);
    const auto* text = node.as_string();
    const auto value = text && text->get() == kMustBeGiven ? kMustBeGiven : std::visit(Value{node}, place_of_row);
    if (!value)
      return note(line, key + " is " + what_it_is(node) + " but takes " + std::visit(Kind{}, place_of_row) + ".");
    file_.settings.push_back({row, *value, place(line) + key});
  }

  const std::string name_;
  ConfigFile file_;
  std::vector<std::pair<std::uint32_t, std::string>> mistakes_;
};

struct InToml {
  const std::string& text;
  std::string operator()(std::string*) const { return toml_string(text); }
  std::string operator()(std::vector<std::string>*) const {
    std::string out;
    for (const std::string& one : text.empty() ? std::vector<std::string>{} : split(text, ','))
      out += (out.empty() ? "" : ", ") + toml_string(one);
    return "[" + out + "]";
  }
  std::string operator()(double*) const {  // never a whole number: those have no -0 and end at 2^63
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  template <class Other>
  std::string operator()(Other*) const {
    return text;
  }
};

}  // namespace

ConfigFile read_config_file(const std::string& name, const std::string& text) { return Reader(name).read(text); }

std::string print_config(const Options& options, const std::vector<Setting>& given) {
  std::string out, section;
  for (const SettingRow& row : setting_rows()) {
    const std::string key = row.key, of = key.substr(0, key.find('.')), text = text_of(row, options);
    if (of != section) out += (section.empty() ? "[" : "\n[") + of + "]\n";
    section = of;
    const auto from = std::find_if(given.rbegin(), given.rend(), [&](const Setting& one) { return one.row == &row; });
    Options scratch;
    const bool means_none = apply({&row, text, ""}, scratch).has_value();  // no value that could be given
    std::string line = (means_none ? "# " : "") + key.substr(of.size() + 1);
    if (!means_none) line += " = " + std::visit(InToml{text}, row.place(scratch));
    line.resize(std::max(line.size(), kCommentColumn), ' ');
    out += line + "  # " + (from != given.rend() ? visible(from->origin) : means_none ? "not set" : "default") + "\n";
  }
  return out;
}

}  // namespace ddprun
