// Brings the workers' output, which the thread of LogPipes reads, to an OutputWatch, which the agent asks.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "agent/logs/output_watch.h"

namespace ddprun::agent {

// Thread-safe.
class OutputMonitor : public std::enable_shared_from_this<OutputMonitor> {
 public:
  explicit OutputMonitor(std::vector<OutputRule> rules) : watch_(std::move(rules)) {}

  void begin_round(int round);
  void worker_ended(int round, int local_rank);
  // For the bytes of one stream, in order. Those of another round than the newest are dropped. It keeps us alive.
  std::function<void(std::string_view bytes)> tap(int round, int local_rank);
  std::optional<OutputWatch::Finding> finding();

 private:
  void take_line(int round, int local_rank, std::string_view line);

  std::mutex mutex_;
  OutputWatch watch_;
  int round_ = 0;
};

}  // namespace ddprun::agent
