// A job's metrics as the JSON of OTLP/HTTP, a request of OpenTelemetry's metrics service. Pure.
//
// By https://opentelemetry.io/docs/specs/otlp/ and proto3's JSON: integers of 64 bits are texts, enumerations numbers.
// Names and labels are those of /metrics, but a counter's name has no "_total": collectors add it for Prometheus.
#pragma once
#include <cstdint>
#include <string>

#include "agent/status/metric_sink.h"
#include "agent/status/metrics_text.h"

namespace ddprun::agent {

// In nanoseconds since 1970.
struct OtlpTimes {
  std::uint64_t now = 0;
  std::uint64_t start = 0;  // of the agent
  std::uint64_t round = 0;  // when this node's round began; 0: none has
};

std::string otlp_json(const MetricsValues& values, const MetricLabels& resource, const OtlpTimes& times);

}  // namespace ddprun::agent
