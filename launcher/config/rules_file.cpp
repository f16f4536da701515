#include "launcher/config/rules_file.h"

#include <algorithm>
#include <optional>

#include "agent/diagnosis/pattern.h"
#include "agent/process/exit_status.h"
#include "launcher/config/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using agent::OutputRule;
using rendezvous::FailureClass, rendezvous::FailureRule, rendezvous::RuleAction;
using settings::FileNotes;

constexpr int kLargestExitCode = 255;
const std::vector<std::string> kFailureKeys = {"class", "exit-code", "signal", "stderr"};
const std::vector<std::string> kOutputKeys = {"line", "value", "for", "silent"};

bool is_among(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Calls `take` with each value, one or an array of them.
template <class Take>
void each(const toml::node& node, Take take) {
  if (const toml::array* all = node.as_array()) {
    for (const toml::node& one : *all) take(one);
  } else {
    take(node);
  }
}

// One rule, of either kind.
class Reader {
 public:
  explicit Reader(FileNotes& notes) : notes_(notes) {}

  // False: there is a mistake.
  bool read(const toml::table& table) {
    failure_.place = output_.place = notes_.place(table);
    std::string about_failures;
    for (const auto& [name, value] : table) {
      const std::string key = with_dashes(name.str());
      if (is_among(key, kFailureKeys)) about_failures = key;
      read_entry(key, value);
    }
    if (!acts_)
      add(table, "a rule says what to do: action = \"restart\", or " +
                     listed({"\"restart-elsewhere\"", "\"requeue\"", "\"stop\""}) + ".");
    check_kind(table, about_failures);
    return !wrong_;
  }

  bool is_about_output() const { return !output_key_.empty(); }
  FailureRule failure() const { return failure_; }
  OutputRule output() const { return output_; }

 private:
  void read_entry(const std::string& key, const toml::node& value) {
    if (const toml::array* all = value.as_array(); all && all->empty())
      return add(value, key + " is an empty list: name what the rule is about, or leave the key out.");
    if (is_among(key, kOutputKeys)) return read_output_entry(key, value);
    if (key == "class") return each(value, [&](const toml::node& one) { read_class(one); });
    if (key == "exit-code") return each(value, [&](const toml::node& one) { read_exit_code(one); });
    if (key == "signal") return each(value, [&](const toml::node& one) { read_signal(one); });
    if (key == "stderr") return void(failure_.pattern = read_pattern(key, value));
    if (key == "action") return read_action(value);
    std::vector<std::string> known = kFailureKeys;
    known.insert(known.end(), kOutputKeys.begin(), kOutputKeys.end());
    known.push_back("action");
    add(value, "a rule has no key " + visible(key) + "; its keys are " + listed(known, "and") + "." +
                   did_you_mean(key, known));
  }

  void read_output_entry(const std::string& key, const toml::node& value) {
    output_key_ = key;
    output_.text +=
        (output_.text.empty() ? "" : "\n") + key + " = " + toml_string(settings::scalar(value, false).value_or(""));
    if (key == "line") output_.pattern = read_pattern(key, value);
    if (key == "silent") output_.silent = read_time(key, value);
    if (key == "for") output_.lasts = read_time(key, value);
    if (key != "value") return;
    if (const auto test = agent::read_value_test(value.value_or(std::string())))
      output_.value = *test;
    else
      add(value,
          "value is " + describe_value(value) + R"(; it takes a text or a comparison: "nan", "> 100", "< 0.1".)");
  }

  void check_kind(const toml::table& table, const std::string& about_failures) {
    if (!is_about_output() || wrong_) return;
    if (!about_failures.empty())
      return add(table, "a rule is about failures (" + about_failures + ") or about the output of workers that run (" +
                            output_key_ + "), not about both.");
    if (output_.pattern.empty() == !output_.silent)
      add(table, "a rule about output has line, perhaps with value and for, or silent: line = 'loss (\\S+)'.");
    else if (output_.silent && (output_.value.by != agent::ValueTest::By::any || output_.lasts > Duration::zero()))
      add(table, "value and for belong to line, not to silent.");
  }

  void read_class(const toml::node& value) {
    const std::vector<std::string> known = rendezvous::classes_for_rules();
    const std::string name = with_dashes(value.value_or(std::string()));
    if (!is_among(name, known))
      return add(value,
                 "class is " + describe_value(value) + "; it takes " + listed(known) + "." + did_you_mean(name, known));
    failure_.classes.insert(*rendezvous::failure_class(name));
  }

  void read_exit_code(const toml::node& value) {
    const std::int64_t code = value.is_integer() ? value.as_integer()->get() : 0;
    if (code < 1 || code > kLargestExitCode)
      return add(value, "exit-code is " + describe_value(value) + "; it takes a number from 1 to 255.");
    failure_.exit_codes.insert(static_cast<int>(code));
  }

  void read_signal(const toml::node& value) {
    const int signal = agent::signal_number(value.value_or(std::string()));
    if (signal == 0)
      return add(value, "signal is " + describe_value(value) + "; it takes the name of a signal, such as \"SIGSEGV\".");
    failure_.signals.insert(signal);
  }

  std::string read_pattern(const std::string& key, const toml::node& value) {
    const std::string pattern = value.value_or(std::string());
    const auto compiled = agent::Pattern::compile(pattern);
    if (pattern.empty())
      add(value, key + " is " + describe_value(value) + "; it takes a regular expression: " + key + " = 'NCCL error'.");
    else if (const auto* invalid = std::get_if<agent::Pattern::Invalid>(&compiled))
      add(value, key + " is not a regular expression (PCRE2): " + invalid->why + ".");
    return pattern;
  }

  Duration read_time(const std::string& key, const toml::node& value) {
    const auto time = settings::read_duration(settings::scalar(value, false).value_or(""));
    if (const auto* duration = std::get_if<Duration>(&time); duration && *duration > Duration::zero()) return *duration;
    add(value, key + " is " + describe_value(value) + "; it takes a time above 0, such as \"90s\" or \"5m\".");
    return {};
  }

  void read_action(const toml::node& value) {
    const std::string name = with_dashes(value.value_or(std::string()));
    const std::optional<RuleAction> action = rendezvous::rule_action(name);
    acts_ = true;
    if (!action)
      return add(value, "action is " + describe_value(value) + "; it takes " + listed(rendezvous::rule_action_names()) +
                            "." + did_you_mean(name, rendezvous::rule_action_names()));
    failure_.action = output_.action = *action;
  }

  void add(const toml::node& node, const std::string& sentence) {
    wrong_ = true;
    notes_.add(node, sentence);
  }

  FileNotes& notes_;
  FailureRule failure_;
  OutputRule output_;
  std::string output_key_;  // one of its keys; empty: it is about failures
  bool acts_ = false, wrong_ = false;
};

template <class Value, class Text>
std::string printed(const std::string& key, const std::set<Value>& values, Text text) {
  if (values.empty()) return {};
  std::string out;
  for (const Value& value : values) out += (out.empty() ? "" : ", ") + text(value);
  return key + " = " + (values.size() > 1 ? "[" + out + "]" : out) + "\n";
}

std::string printed(const FailureRule& rule) {
  std::string out = printed("class", rule.classes, [&](FailureClass kind) { return toml_string(name_of(kind)); });
  out += printed("exit-code", rule.exit_codes, [](int code) { return std::to_string(code); });
  out += printed("signal", rule.signals, [&](int signal) { return toml_string(agent::signal_name(signal)); });
  if (!rule.pattern.empty()) out += "stderr = " + toml_string(rule.pattern) + "\n";
  return out;
}

std::string printed(const OutputRule& rule) { return rule.text + "\n"; }

}  // namespace

Rules read_rules(const toml::node& node, FileNotes& notes) {
  const toml::array* all = node.as_array();
  if (!all || !all->is_array_of_tables()) {
    notes.add(node, "rules is " + describe_value(node) + "; each rule begins with a line [[rules]].");
    return {};
  }
  Rules rules;
  std::vector<const toml::node*> nodes;
  for (const toml::node& one : *all) {
    Reader reader(notes);
    if (!reader.read(*one.as_table())) continue;
    if (reader.is_about_output()) {
      rules.output.push_back(reader.output());
    } else {
      rules.failures.push_back(reader.failure());
      nodes.push_back(&one);
    }
  }
  for (const auto& [index, why] : rendezvous::useless_rules(rules.failures))
    notes.add(*nodes[index], "this rule can never match: " + why + ". Correct it, or leave it out.");
  return rules;
}

std::string print_rules(const Rules& rules) {
  std::string out;
  const auto add = [&](const auto& rule) {
    out += "\n" + settings::commented("[[rules]]", rule.place) + printed(rule) +
           "action = " + toml_string(name_of(rule.action)) + "\n";
  };
  for (const FailureRule& rule : rules.failures) add(rule);
  for (const OutputRule& rule : rules.output) add(rule);
  return out;
}

}  // namespace ddprun::launcher
