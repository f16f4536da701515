// How fast workers are: told to the coordinator, which finds stragglers.
#include "agent/agent.h"

namespace ddprun::agent {

void Agent::watch_pace() {
  if (!options_.watch_stragglers || !supervisor_.running_round()) return;
  if (const TimePoint now = Clock::now(); now >= pace_.next_look()) send_pace(now);
  pace_timer_.expires_at(pace_.next_look());
  pace_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) watch_pace();
  });
}

void Agent::send_pace(TimePoint now) {
  std::map<int, Progress> seen;
  for (const auto& [local_rank, worker] : workers_.records())
    if (worker.pid != 0 && !worker.status) seen.emplace(local_rank, workers_.channels().progress(local_rank, now));
  std::vector<rendezvous::Pace> windows = pace_.look(seen, now);
  for (rendezvous::Pace& window : windows) window.rank = workers_.rank_of(window.rank);
  if (seat_ && !windows.empty()) contact_.send(rendezvous::NodePace{node(), seat_->round, std::move(windows)});
}

void Agent::report_pace(const rendezvous::ReportPace& report) {
  if (supervisor_.running_round() != report.round) return;
  reporter_.pace_changed(report);
  job_events_.pace_changed(report);
}

}  // namespace ddprun::agent
