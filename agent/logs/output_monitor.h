// Brings the workers' output, which the thread of LogPipes reads, to an OutputWatch and rank 0's to OutputMetrics,
// which the agent asks. Lines are searched in that thread, outside the lock: the agent never waits for a pattern.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "agent/logs/output_metrics.h"
#include "agent/logs/output_watch.h"

namespace ddprun::agent {

// Thread-safe; all taps are one thread's.
class OutputMonitor : public std::enable_shared_from_this<OutputMonitor> {
 public:
  // The patterns must be valid.
  explicit OutputMonitor(const std::vector<OutputRule>& rules, const std::vector<MetricDefinition>& metrics = {})
      : rule_search_(patterns_of(rules)), metric_search_(patterns_of(metrics)), watch_(rules), metrics_(metrics) {}

  // `with_rank_0`: our local rank 0 is rank 0 of the job.
  void begin_round(int round, bool with_rank_0 = true);
  void worker_ended(int round, int local_rank);
  // For the bytes of one stream, in order. Those of another round than the newest are dropped. It keeps us alive.
  std::function<void(std::string_view bytes)> tap(int round, int local_rank);
  std::optional<OutputWatch::Finding> finding();
  // With new values since the last call.
  std::vector<Metric> take_metrics();
  // That took too long, since the last call.
  std::vector<LineSearch::Wanted> take_dropped();

 private:
  void take_line(int round, int local_rank, std::string_view line);

  LineSearch rule_search_, metric_search_;  // of the taps' thread
  std::mutex mutex_;                        // guards what follows
  OutputWatch watch_;
  OutputMetrics metrics_;
  std::vector<LineSearch::Wanted> dropped_;
  int round_ = 0;
  bool with_rank_0_ = false;
};

}  // namespace ddprun::agent
