#include "agent/hang/signs_of_life.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "agent/process/children.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kSamples = 3;
constexpr double kBytesPerSecond = 64 << 10;  // more than what loggers and heartbeats write
// A loop without end takes one processor: only who takes more works as in training.
constexpr double kProcessors = 1.5, kShareOfTraining = 0.5, kProcessorsOfChildren = 0.5;

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

std::string sign_between(const LifeSample& before, const LifeSample& now) {
  const double time = seconds(now.at - before.at);
  if (time <= 0) return {};
  if (!before.functions.empty() && !now.functions.empty() && before.functions != now.functions)
    return "its stack moves";
  if (before.collectives != 0 && now.collectives > before.collectives) return "it enters collectives";
  if (const double bytes = (now.bytes - before.bytes) / time; bytes >= kBytesPerSecond) {
    char text[64];
    std::snprintf(text, sizeof text, "it reads and writes %.1f MB/s", bytes / 1e6);
    return text;
  }
  const double usual = before.ran > Duration::zero() ? before.cpu_s / seconds(before.ran) : 0;
  if ((now.cpu_s - before.cpu_s) / time >= std::max(kProcessors, kShareOfTraining * usual))
    return "it computes as in training";
  if (!now.loads && (now.cpu_s_of_children - before.cpu_s_of_children) / time >= kProcessorsOfChildren)
    return "what it has started computes";
  return {};
}

}  // namespace

void SignsOfLife::add(LifeSample sample) {
  if (!last_.empty() && sample.at <= last_.back().at) return;
  last_.push_back(std::move(sample));
  if (last_.size() > kSamples) last_.erase(last_.begin());
}

std::string SignsOfLife::in_words() const {
  for (std::size_t i = last_.size(); i > 1; --i)
    if (std::string sign = sign_between(last_[i - 2], last_[i - 1]); !sign.empty()) return sign;
  return {};
}

void add_from_proc(pid_t worker, LifeSample& sample) {
  sample.bytes = static_cast<double>(bytes_moved(table_entry(worker)));
  if (const auto stat = task_stat(worker)) sample.cpu_s = stat->cpu_s;
  for (const pid_t child : started_by(worker)) {
    sample.bytes += static_cast<double>(bytes_moved(table_entry(child)));
    if (const auto stat = task_stat(child)) sample.cpu_s_of_children += stat->cpu_s;
  }
}

}  // namespace ddprun::agent
