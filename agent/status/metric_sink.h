// Where metrics are written to: metric_writer.h makes text of them, otlp_json.h the JSON of OpenTelemetry.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/status/histogram.h"

namespace ddprun::agent {

// Names are literals. No two samples of a metric have the same labels.
using MetricLabels = std::vector<std::pair<std::string_view, std::string>>;

enum class MetricKind {
  gauge,
  counter,           // since the agent's start, or longer: its name ends with "_total"
  counter_of_round,  // the same, but it begins at 0 with each round
  histogram,         // since the agent's start
};

class MetricSink {
 public:
  virtual ~MetricSink() = default;
  // Begins the samples of one metric. `help`: a line without backslashes.
  virtual void begin(std::string_view name, MetricKind kind, std::string_view help) = 0;
  virtual void sample(const MetricLabels& labels, double value) = 0;
  virtual void sample(const MetricLabels& labels, const Histogram& value) = 0;

  void single(std::string_view name, MetricKind kind, std::string_view help, double value) {
    begin(name, kind, help);
    sample({}, value);
  }
};

}  // namespace ddprun::agent
