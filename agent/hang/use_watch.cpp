#include "agent/hang/use_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/process/children.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {

void UseWatch::begin_round() {
  meter_.begin_round();
  watch(kUseSampleFirst);  // a short job needs none
}

void UseWatch::watch(Duration pause) {
  timer_.expires_after(pause);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error || !hooks_.running_round()) return;
    look();
    watch(kUseSampleEvery);
  });
}

void UseWatch::look() {
  std::vector<int> silent;
  bool all_are_silent = true;
  for (const auto& [local_rank, pid] : workers_.running()) {
    meter_.add(local_rank, use_sample(pid));
    all_are_silent &= !workers_.progress(local_rank).has_reported();
    silent.push_back(local_rank);
  }
  if (all_are_silent && meter_.to_be_told(silent, Clock::now())) hooks_.on_all_still();
}

std::optional<WorkerUse> UseWatch::use(int local_rank) const {
  const auto running = workers_.running();
  const auto worker = running.find(local_rank);
  if (worker == running.end()) return {};
  return meter_.use(local_rank, use_sample(worker->second));
}

UseSample use_sample(pid_t worker) {
  UseSample sample{.at = Clock::now()};
  std::vector<pid_t> all = started_by(worker);
  all.push_back(worker);
  for (const pid_t one : all) {
    sample.bytes += static_cast<double>(bytes_moved(table_entry(one)));
    const auto stat = task_stat(one);
    if (!stat) continue;
    sample.cpu_s += stat->cpu_s;
    sample.memory = std::max<std::uint64_t>(sample.memory, stat->resident_bytes);  // forks share most of it
  }
  return sample;
}

}  // namespace ddprun::agent
