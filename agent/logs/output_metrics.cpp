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

std::vector<LineSearch::Wanted> patterns_of(const std::vector<MetricDefinition>& definitions) {
  std::vector<LineSearch::Wanted> out;
  for (const auto& [name, pattern, place] : definitions)
    out.push_back({pattern, "the metric " + name + " at " + place});
  return out;
}

OutputMetrics::OutputMetrics(const std::vector<MetricDefinition>& definitions) {
  for (const MetricDefinition& definition : definitions) watched_.push_back({{.name = definition.name}});
}

void OutputMetrics::take_line(const Captures& captured) {
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    const auto value = captured[i] ? number_in(*captured[i]) : std::nullopt;
    if (!value) continue;
    add(*value, watched_[i].metric);
    watched_[i].changed = true;
  }
}

std::vector<Metric> OutputMetrics::take_changed() {
  std::vector<Metric> out;
  for (Watched& watched : watched_)
    if (std::exchange(watched.changed, false)) out.push_back(watched.metric);
  return out;
}

}  // namespace ddprun::agent
