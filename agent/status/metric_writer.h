// Writes metrics as text: Prometheus's format 0.0.4, or OpenMetrics 1.0. Pure.
//
// Formats: https://prometheus.io/docs/instrumenting/exposition_formats/ and
// https://prometheus.io/docs/specs/om/open_metrics_spec/.
#pragma once
#include <string>
#include <string_view>

#include "agent/status/metric_sink.h"

namespace ddprun::agent {

enum class MetricsFormat { prometheus, open_metrics };

// What an HTTP request's Accept header prefers; Prometheus's if it names neither.
MetricsFormat metrics_format(std::string_view accept);
const char* content_type(MetricsFormat format);

class MetricWriter : public MetricSink {
 public:
  explicit MetricWriter(MetricsFormat format) : format_(format) {}

  void begin(std::string_view name, MetricKind kind, std::string_view help) override;
  void sample(const MetricLabels& labels, double value) override;
  void sample(const MetricLabels& labels, const Histogram& value) override;
  std::string take();

 private:
  void line(std::string_view suffix, const MetricLabels& labels, std::string_view value, const std::string& bound = "");

  const MetricsFormat format_;
  std::string name_ = {}, text_ = {};
};

}  // namespace ddprun::agent
