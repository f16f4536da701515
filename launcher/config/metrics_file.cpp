#include "launcher/config/metrics_file.h"

#include <algorithm>

#include "agent/diagnosis/pattern.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using agent::MetricDefinition;
using settings::FileNotes;

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// SageMaker writes Name and Regex.
bool read_metric_entry(const std::string& key, const toml::node& value, MetricDefinition& metric, FileNotes& notes) {
  if (key != "name" && key != "regex")
    return notes.add(value, "a metric has no key " + visible(key) + "; its keys are name and regex." +
                                did_you_mean(key, {"name", "regex"})),
           false;
  if (!value.is_string()) return notes.add(value, key + " is " + describe_value(value) + "; it takes a string."), false;
  (key == "name" ? metric.name : metric.pattern) = value.as_string()->get();
  if (key == "name") return true;
  const auto compiled = agent::Pattern::compile(metric.pattern);
  if (const auto* invalid = std::get_if<agent::Pattern::Invalid>(&compiled))
    return notes.add(value, "regex is not a regular expression (PCRE2): " + invalid->why + "."), false;
  return true;
}

void check_metric(const toml::node& node, const MetricDefinition& metric, const std::vector<MetricDefinition>& earlier,
                  FileNotes& notes) {
  if (metric.name.empty() || metric.pattern.empty())
    return notes.add(node, "a metric has a name and a regex: name = \"loss\", regex = 'loss (\\S+)'.");
  for (const MetricDefinition& other : earlier)
    if (other.name == metric.name)
      notes.add(node, "the metric " + visible(metric.name) + " is defined twice: " + other.place + " has it, too.");
}

}  // namespace

bool is_metrics_key(const std::string& key) {
  return key == "metrics" || key == "metric_definitions" || key == "metric-definitions";
}

std::vector<MetricDefinition> read_metrics(const toml::node& node, FileNotes& notes) {
  const toml::array* all = node.as_array();
  if (!all || !all->is_array_of_tables()) {
    const bool is_place = node.is_string() || node.is_integer();
    notes.add(node, "metrics is " + describe_value(node) + "; each metric begins with a line [[metrics]]" +
                        (is_place ? ", and the place of --metrics is metrics-address." : "."));
    return {};
  }
  std::vector<MetricDefinition> out;
  for (const toml::node& one : *all) {
    MetricDefinition metric{.place = notes.place(one)};
    bool right = true;
    for (const auto& [key, value] : *one.as_table())
      right &= read_metric_entry(lower_case(key.str()), value, metric, notes);
    if (right) check_metric(one, metric, out, notes);
    out.push_back(std::move(metric));
  }
  return out;
}

std::string print_metrics(const std::vector<MetricDefinition>& metrics) {
  std::string out;
  for (const MetricDefinition& metric : metrics)
    out += "\n" + settings::commented("[[metrics]]", metric.place) + "name = " + toml_string(metric.name) +
           "\nregex = " + toml_string(metric.pattern) + "\n";
  return out;
}

}  // namespace ddprun::launcher
