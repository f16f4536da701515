#include "agent/logs/output_metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace ddprun::agent {
namespace {

void add(double value, Metric& metric) {
  metric.least = metric.count == 0 ? value : std::fmin(metric.least, value);  // fmin and fmax leave nan out
  metric.most = metric.count == 0 ? value : std::fmax(metric.most, value);
  metric.last = value;
  ++metric.count;
}

}  // namespace

std::optional<double> number_in(std::string_view text) {
  constexpr const char* kBlanks = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  if (text.starts_with('+')) text.remove_prefix(1);  // from_chars knows no plus
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

OutputMetrics::OutputMetrics(const std::vector<MetricDefinition>& definitions) {
  for (const MetricDefinition& definition : definitions)
    watched_.push_back({std::get<Pattern>(Pattern::compile(definition.pattern)), {.name = definition.name}});
}

void OutputMetrics::take_line(std::string_view line) {
  for (Watched& watched : watched_) {
    const auto captured = watched.pattern.captured_in(line);
    const auto value = captured ? number_in(*captured) : std::nullopt;
    if (!value) continue;
    add(*value, watched.metric);
    watched.changed = true;
  }
}

std::vector<Metric> OutputMetrics::take_changed() {
  std::vector<Metric> out;
  for (Watched& watched : watched_)
    if (std::exchange(watched.changed, false)) out.push_back(watched.metric);
  return out;
}

}  // namespace ddprun::agent
