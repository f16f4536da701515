#include "agent/status/otlp_json.h"

#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "rendezvous/base/json_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

using nlohmann::json;

constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE
constexpr std::string_view kCounterSuffix = "_total";

// https://unitsofmeasure.org, as OpenTelemetry asks for.
const char* unit_of(std::string_view name) {
  if (name.ends_with("_seconds")) return "s";
  if (name.ends_with("_bytes")) return "By";
  return "1";
}

json attributes(const MetricLabels& labels) {
  json out = json::array();
  for (const auto& [name, value] : labels) out.push_back({{"key", name}, {"value", {{"stringValue", visible(value)}}}});
  return out;
}

class OtlpWriter : public MetricSink {
 public:
  explicit OtlpWriter(const OtlpTimes& times) : times_(times) {}

  void begin(std::string_view name, MetricKind kind, std::string_view help) override {
    const bool is_sum = kind == MetricKind::counter || kind == MetricKind::counter_of_round;
    if (is_sum) name.remove_suffix(kCounterSuffix.size());
    since_ = kind == MetricKind::counter_of_round && times_.round != 0 ? times_.round : times_.start;
    has_start_ = kind != MetricKind::gauge;
    json data = {{"dataPoints", json::array()}};
    if (has_start_) data["aggregationTemporality"] = kCumulative;
    if (is_sum) data["isMonotonic"] = true;
    const char* kind_of_data = is_sum ? "sum" : kind == MetricKind::histogram ? "histogram" : "gauge";
    metrics_.push_back(
        {kind_of_data,
         {{"name", name}, {"description", help}, {"unit", unit_of(name)}, {kind_of_data, std::move(data)}}});
  }

  void sample(const MetricLabels& labels, double value) override {
    if (std::isfinite(value)) add(labels, {{"asDouble", value}});
  }

  void sample(const MetricLabels& labels, const Histogram& value) override {
    json counts = json::array();
    for (const std::uint64_t count : value.counts()) counts.push_back(std::to_string(count));
    add(labels, {{"count", std::to_string(value.count())},
                 {"sum", value.sum()},
                 {"bucketCounts", std::move(counts)},
                 {"explicitBounds", std::vector<double>(value.bounds().begin(), value.bounds().end())}});
  }

  // Collectors need not take a metric without any point.
  json take() {
    json out = json::array();
    for (Named& metric : metrics_)
      if (!metric.body[metric.data]["dataPoints"].empty()) out.push_back(std::move(metric.body));
    return out;
  }

 private:
  struct Named {
    const char* data;  // where its points are
    json body;
  };
  void add(const MetricLabels& labels, json point) {
    if (!labels.empty()) point["attributes"] = attributes(labels);
    if (has_start_) point["startTimeUnixNano"] = std::to_string(since_);
    point["timeUnixNano"] = std::to_string(times_.now);
    Named& to = metrics_.back();
    to.body[to.data]["dataPoints"].push_back(std::move(point));
  }

  const OtlpTimes times_;
  std::uint64_t since_ = 0;
  bool has_start_ = false;
  std::vector<Named> metrics_;
};

}  // namespace

std::string otlp_json(const MetricsValues& values, const MetricLabels& resource, const OtlpTimes& times) {
  OtlpWriter writer(times);
  write_metrics(values, writer);
  const json scope = {{"scope", {{"name", "ddprun"}, {"version", values.version}}}, {"metrics", writer.take()}};
  const json all = {{"resource", {{"attributes", attributes(resource)}}}, {"scopeMetrics", json::array({scope})}};
  return json_text(json{{"resourceMetrics", json::array({all})}});
}

}  // namespace ddprun::agent
