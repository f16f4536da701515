#include "agent/logs/output_monitor.h"

#include <algorithm>
#include <string>

namespace ddprun::agent {
namespace {

constexpr std::size_t kLineMax = std::size_t{16} * 1024;  // the rest of a longer line is not searched

}  // namespace

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
      held.append(bytes.substr(0, std::min(end, kLineMax - std::min(held.size(), kLineMax))));
      if (end == bytes.size()) return;
      if (!held.empty()) self->take_line(round, local_rank, held);
      held.clear();
      bytes.remove_prefix(end + 1);
    }
  };
}

void OutputMonitor::take_line(int round, int local_rank, std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (round != round_) return;
  watch_.take_line(local_rank, line, Clock::now());
  if (with_rank_0_ && local_rank == 0) metrics_.take_line(line);
}

std::optional<OutputWatch::Finding> OutputMonitor::finding() {
  const std::lock_guard lock(mutex_);
  return watch_.finding(Clock::now());
}

std::vector<Metric> OutputMonitor::take_metrics() {
  const std::lock_guard lock(mutex_);
  return metrics_.take_changed();
}

}  // namespace ddprun::agent
