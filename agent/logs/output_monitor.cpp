#include "agent/logs/output_monitor.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun::agent {
void OutputMonitor::begin_round(int round, bool with_rank_0) {
  const std::lock_guard lock(mutex_);
  round_ = round;
  with_rank_0_ = with_rank_0;
  watch_.begin_round();
}

void OutputMonitor::worker_ended(int round, int local_rank) {
  const std::lock_guard lock(mutex_);
  if (round == round_) watch_.worker_ended(local_rank);
}

// A progress bar ends its lines by "\r".
std::function<void(std::string_view)> OutputMonitor::tap(int round, int local_rank) {
  return [self = shared_from_this(), round, local_rank, held = std::string()](std::string_view bytes) mutable {
    while (!bytes.empty()) {
      const std::size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
      held.append(bytes.substr(0, std::min(end, Pattern::kLineMax - held.size())));
      if (end == bytes.size()) return;
      if (!held.empty()) self->take_line(round, local_rank, held);
      held.clear();
      bytes.remove_prefix(end + 1);
    }
  };
}

void OutputMonitor::take_line(int round, int local_rank, std::string_view line) {
  const TimePoint now = Clock::now();
  std::unique_lock lock(mutex_);
  if (round != round_) return;
  const bool measured = with_rank_0_ && local_rank == 0;
  lock.unlock();
  const Captures by_rules = rule_search_.captured_in(line);
  const Captures by_metrics = measured ? metric_search_.captured_in(line) : Captures();
  lock.lock();
  for (const auto& [rule, wanted] : rule_search_.take_dropped()) {
    watch_.drop(rule);
    dropped_.push_back(wanted);
  }
  for (const auto& dropped : metric_search_.take_dropped()) dropped_.push_back(dropped.wanted);
  if (round != round_) return;
  watch_.take_line(local_rank, by_rules, now);
  if (measured) metrics_.take_line(by_metrics);
}

std::optional<OutputWatch::Finding> OutputMonitor::finding() {
  const std::lock_guard lock(mutex_);
  return watch_.finding(Clock::now());
}

std::vector<Metric> OutputMonitor::take_metrics() {
  const std::lock_guard lock(mutex_);
  return metrics_.take_changed();
}

std::vector<LineSearch::Wanted> OutputMonitor::take_dropped() {
  const std::lock_guard lock(mutex_);
  return std::exchange(dropped_, {});
}

}  // namespace ddprun::agent
