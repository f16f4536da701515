// Brings the workers' output, which the thread of LogPipes reads, to an OutputWatch and rank 0's to OutputMetrics,
// which the agent asks.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "agent/logs/output_metrics.h"
#include "agent/logs/output_watch.h"

namespace ddprun::agent {

// Thread-safe.
class OutputMonitor : public std::enable_shared_from_this<OutputMonitor> {
 public:
  explicit OutputMonitor(std::vector<OutputRule> rules, const std::vector<MetricDefinition>& metrics = {})
      : watch_(std::move(rules)), metrics_(metrics) {}

  // `with_rank_0`: our local rank 0 is rank 0 of the job.
  void begin_round(int round, bool with_rank_0 = true);
  void worker_ended(int round, int local_rank);
  // For the bytes of one stream, in order. Those of another round than the newest are dropped. It keeps us alive.
  std::function<void(std::string_view bytes)> tap(int round, int local_rank);
  std::optional<OutputWatch::Finding> finding();
  // With new values since the last call.
  std::vector<Metric> take_metrics();

 private:
  void take_line(int round, int local_rank, std::string_view line);

  std::mutex mutex_;
  OutputWatch watch_;
  OutputMetrics metrics_;
  int round_ = 0;
  bool with_rank_0_ = false;
};

}  // namespace ddprun::agent
