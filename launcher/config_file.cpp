#include "launcher/config_file.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "launcher/options.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/toml.h"

namespace ddprun {
namespace {

// What ddprun tells each worker itself, and what a file could only contradict.
constexpr const char* kOwnVariables[] = {"RANK",
                                         "LOCAL_RANK",
                                         "GROUP_RANK",
                                         "ROLE_RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_WORLD_SIZE",
                                         "ROLE_NAME",
                                         "GROUP_WORLD_SIZE",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "ROLE_WORLD_SIZE",
                                         "TORCHELASTIC_RESTART_COUNT",
                                         "TORCHELASTIC_MAX_RESTARTS",
                                         "TORCHELASTIC_RUN_ID",
                                         "TORCHELASTIC_USE_AGENT_STORE",
                                         "TORCHELASTIC_ERROR_FILE"};

// A string, number or, where asked for, a truth as text.
std::optional<std::string> scalar(const toml::node& node, bool truth) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return toml_number(number->get());
  if (const auto* yes = node.as_boolean(); yes && truth) return yes->get() ? "true" : "false";
  return {};
}

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  ConfigFile read(const std::string& text) {
    try {
      for (const auto& [key, node] : parse_toml(text, name_)) read_entry(std::string(key.str()), node);
    } catch (const toml::parse_error& error) {
      note(error.source().begin.line,
           not_toml(error, text) + ". A value is a number, true, false, a text in quotes, or an array of such.");
    }
    sort_by_line();
    return std::move(file_);
  }

 private:
  void note(std::uint32_t line, const std::string& sentence) {
    mistakes_.emplace_back(line, name_ + ":" + std::to_string(line) + ": " + sentence);
  }

  std::string place(const toml::node& node) const { return name_ + ":" + std::to_string(node.source().begin.line); }

  void read_entry(const std::string& key, const toml::node& node) {
    if (key == "program") return read_program(node);
    if (key == "env") return read_env(node);
    const OptionRow* row = find_option(key);
    if (!row || row->group == Group::hidden) return note(line(node), unknown(key));
    if (row->group == Group::ddprun)
      return note(line(node), key + " has no place in a file; pass --" + row->name + " on the command line.");
    for (const Setting& earlier : file_.settings)
      if (earlier.option == row)
        return note(line(node), key + " is set twice: " + earlier.place + " has it, too. Leave out one of them.");
    if (const auto text = value(key, *row, node)) file_.settings.push_back({row, *text, Origin::file, place(node)});
  }

  static std::uint32_t line(const toml::node& node) { return node.source().begin.line; }

  static std::string unknown(const std::string& key) {
    const OptionRow* near = nearest_option(key);
    if (key == "arguments" || key == "args" || key == "command")
      return "there is no key " + key + "; the program and its arguments are program = [\"train\", \"--lr\", \"1\"].";
    if (near && in_file(*near)) return "there is no key " + key + ". Did you mean " + near->name + "?";
    return "there is no key " + key + "; the keys are the options' names, which ddprun --help lists.";
  }

  std::optional<std::string> value(const std::string& key, const OptionRow& row, const toml::node& node) {
    if (const auto text = scalar(node, row.flag())) return text;
    if (const auto* array = node.as_array(); array && row.list) return joined(key, row, *array);
    note(line(node), key + " is " + what_it_is(node) + "; it takes " +
                         (row.flag() ? "true or false."
                          : row.list ? "a text, a number, or an array of them."
                                     : "a text or a number."));
    return {};
  }

  std::optional<std::string> joined(const std::string& key, const OptionRow& row, const toml::array& array) {
    const bool texts = std::string_view(row.name).ends_with("-filters");  // which may hold commas
    std::string all;
    for (const toml::node& node : array) {
      const auto text = scalar(node, false);
      if (!text)
        return note(line(node), key + " holds " + what_it_is(node) + "; it takes texts or numbers."), std::nullopt;
      if (!all.empty()) all += ',';
      for (const char c : *text) all += c == ',' && texts ? std::string(",,") : std::string(1, c);
    }
    return all;
  }

  void read_program(const toml::node& node) {
    const toml::array* words = node.as_array();
    if (node.is_string()) file_.program = {node.as_string()->get()};
    if (words)
      for (const toml::node& word : *words) {
        if (!word.is_string()) return note(line(word), bad_program(word));
        file_.program.push_back(word.as_string()->get());
      }
    if (!words && !node.is_string()) return note(line(node), bad_program(node));
    file_.program_place = place(node);
  }

  static std::string bad_program(const toml::node& node) {
    return std::string("program holds ") + what_it_is(node) + R"(; it takes texts: program = ["train", "--lr", "1"].)";
  }

  void read_env(const toml::node& node) {
    const toml::table* table = node.as_table();
    if (!table)
      return note(line(node),
                  std::string("env is ") + what_it_is(node) + "; it is a table: [env], and NAME = \"value\" below.");
    for (const auto& [key, value] : *table) read_variable(std::string(key.str()), value);
  }

  void read_variable(const std::string& name, const toml::node& value) {
    const auto text = scalar(value, false);
    if (name.empty() || name.find('=') != std::string::npos)
      return note(line(value), "'" + name + "' cannot be the name of a variable.");
    if (!text) return note(line(value), name + " is " + what_it_is(value) + "; a variable is a text or a number.");
    for (const char* own : kOwnVariables)
      if (name == own || name.starts_with("DDPRUN_"))
        return note(line(value), name + " is what ddprun tells each worker itself: leave it out.");
    file_.env.emplace(name, *text);
  }

  // toml++ hands out keys in alphabetical order; a person reads from the top.
  void sort_by_line() {
    std::stable_sort(mistakes_.begin(), mistakes_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [ignored, sentence] : mistakes_) file_.mistakes.push_back(visible(sentence));
  }

  std::string name_;
  ConfigFile file_;
  std::vector<std::pair<std::uint32_t, std::string>> mistakes_;
};

}  // namespace

ConfigFile read_config_file(const std::string& name, const std::string& text) { return Reader(name).read(text); }

std::string toml_array(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + toml_string(text);
  return "[" + out + "]";
}

std::string toml_key(const std::string& name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
  return bare ? name : toml_string(name);
}

}  // namespace ddprun
