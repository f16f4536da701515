#include "agent/status/metric_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kTotal = "_total";

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view until(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return without_blanks(part);
}

// One of a header's media types: "text/plain; version=0.0.4; q=0.5".
struct MediaRange {
  std::string_view type = {}, version = {};
  double quality = 1;
};

MediaRange media_range(std::string_view text) {
  MediaRange out{.type = until(text, ';')};
  while (!text.empty()) {
    std::string_view parameter = until(text, ';');
    const std::string_view name = until(parameter, '=');
    if (name == "version") out.version = parameter;
    if (name == "q") std::from_chars(parameter.data(), parameter.data() + parameter.size(), out.quality);
  }
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

// OpenMetrics wants floats: "1.0".
std::string bound_text(double bound) {
  std::string text = number_text(bound);
  return text.find_first_not_of("0123456789") == std::string::npos ? text + ".0" : text;
}

void append_label(std::string& to, char before, std::string_view name, const std::string& value) {
  (to += before).append(name) += "=\"";
  for (const char c : visible(value)) {
    if (c == '\\' || c == '"') to += '\\';
    to += c;
  }
  to += '"';
}

}  // namespace

MetricsFormat metrics_format(std::string_view accept) {
  double open_metrics = 0, plain = 0;
  while (!accept.empty()) {
    const MediaRange range = media_range(until(accept, ','));
    if (range.type == "text/plain") plain = std::max(plain, range.quality);
    const bool is_ours = range.version.empty() || range.version == "1.0.0";
    if (range.type == "application/openmetrics-text" && is_ours) open_metrics = std::max(open_metrics, range.quality);
  }
  return open_metrics > 0 && open_metrics >= plain ? MetricsFormat::open_metrics : MetricsFormat::prometheus;
}

const char* content_type(MetricsFormat format) {
  return format == MetricsFormat::open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                               : "text/plain; version=0.0.4; charset=utf-8";
}

// OpenMetrics names a counter without "_total", and its samples with it.
void MetricWriter::begin(std::string_view name, MetricKind kind, std::string_view help) {
  name_ = name;
  const bool is_counter = kind == MetricKind::counter || kind == MetricKind::counter_of_round;
  std::string_view family = name;
  if (format_ == MetricsFormat::open_metrics && is_counter) family.remove_suffix(kTotal.size());
  const char* type = is_counter ? " counter\n" : kind == MetricKind::histogram ? " histogram\n" : " gauge\n";
  ((text_ += "# HELP ").append(family) += ' ').append(help) += '\n';
  (text_ += "# TYPE ").append(family) += type;
}

void MetricWriter::sample(const MetricLabels& labels, double value) { line("", labels, number_text(value)); }

void MetricWriter::sample(const MetricLabels& labels, const Histogram& value) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < value.counts().size(); ++i) {
    below += value.counts()[i];
    const std::string bound = i < value.bounds().size() ? bound_text(value.bounds()[i]) : "+Inf";
    line("_bucket", labels, std::to_string(below), bound);
  }
  line("_sum", labels, number_text(value.sum()));
  line("_count", labels, std::to_string(value.count()));
}

void MetricWriter::line(std::string_view suffix, const MetricLabels& labels, std::string_view value,
                        const std::string& bound) {
  text_.append(name_).append(suffix);
  char before = '{';
  for (const auto& [name, text] : labels) append_label(text_, std::exchange(before, ','), name, text);
  if (!bound.empty()) append_label(text_, std::exchange(before, ','), "le", bound);
  if (before == ',') text_ += '}';
  (text_ += ' ').append(value) += '\n';
}

std::string MetricWriter::take() {
  if (format_ == MetricsFormat::open_metrics) text_ += "# EOF\n";
  return std::exchange(text_, {});
}

}  // namespace ddprun::agent
