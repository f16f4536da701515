// What the output of a round's workers says: a rule that is broken ends the round, and the values of metrics are handed
// on. output_monitor.h reads it in the thread of the pipes; this asks it five times a second.
//
// For the thread of the io_context; hooks are called there.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/logs/output_monitor.h"

namespace ddprun::agent {

class RoundOutput {
 public:
  struct Hooks {
    std::function<bool()> round_runs;                          // and no end of it was decided
    std::function<void(const OutputWatch::Finding&)> on_rule;  // once in a round
    std::function<void(const Metric&)> on_metric;
    std::function<void(const LineSearch::Wanted&)> on_dropped;  // its pattern took too long
  };
  // Without a monitor no rule and no metric is about output, and nothing is done.
  RoundOutput(asio::io_context& io, std::shared_ptr<OutputMonitor> monitor, Hooks hooks)
      : monitor_(std::move(monitor)), hooks_(std::move(hooks)), timer_(io) {}

  void begin_round(int round, bool with_rank_0);
  void worker_ended(int round, int local_rank);
  void watch();  // once all workers run, while the round does
  void tell();   // what is new of metrics, and of patterns that took too long
  const std::optional<OutputWatch::Finding>& finding() const { return finding_; }  // of the round

 private:
  const std::shared_ptr<OutputMonitor> monitor_;
  const Hooks hooks_;
  asio::steady_timer timer_;
  std::optional<OutputWatch::Finding> finding_;
};

}  // namespace ddprun::agent
