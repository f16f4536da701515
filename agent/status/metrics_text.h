// A job's metrics, from what `ddprun status` is answered with. Pure. docs/metrics.md lists all of them.
#pragma once
#include <string>

#include "agent/status/job_measures.h"
#include "agent/status/job_summary.h"
#include "agent/status/metric_writer.h"

namespace ddprun::agent {

struct MetricsValues {
  std::string version = {};  // ddprun's
  bool ready = false;        // as /readyz says
  std::optional<JobMeasures> measures = {};
  StatusAnswer status = {};  // `nodes`: this one alone. Without `job`, the metrics of the whole job are left out
};

void write_metrics(const MetricsValues& values, MetricSink& to);
std::string metrics_text(const MetricsValues& values, MetricsFormat format);

}  // namespace ddprun::agent
