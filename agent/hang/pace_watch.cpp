#include "agent/hang/pace_watch.h"

#include <map>
#include <utility>

namespace ddprun::agent {

void PaceWatch::begin_round(int nodes) {
  meter_.begin_round(nodes, Clock::now());
  if (on_) watch();
}

void PaceWatch::watch() {
  if (!hooks_.running_round()) return;
  if (const TimePoint now = Clock::now(); now >= meter_.next_look()) look(now);
  timer_.expires_at(meter_.next_look());
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) watch();
  });
}

void PaceWatch::look(TimePoint now) {
  std::map<int, Progress> seen;
  for (const auto& [local_rank, pid] : workers_.running()) seen.emplace(local_rank, workers_.progress(local_rank));
  if (std::vector<rendezvous::Pace> windows = meter_.look(seen, now); !windows.empty())
    hooks_.tell_paces(std::move(windows));
}

}  // namespace ddprun::agent
