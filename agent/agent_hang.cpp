// Workers that stand still or are slow: WorkerWatch and PaceWatch look at them.
#include <fstream>
#include <thread>
#include <utility>

#include "agent/agent.h"
#include "rendezvous/base/signals_blocked.h"

namespace ddprun::agent {

WorkersSeen Agent::workers_seen() {
  return {[this] {
            std::map<int, pid_t> running;
            for (const auto& [local_rank, worker] : workers_.records())
              if (worker.pid != 0 && !worker.status) running.emplace(local_rank, worker.pid);
            return running;
          },
          [this] {
            std::vector<int> ended;
            for (const auto& [local_rank, worker] : workers_.records())
              if (worker.status && worker.status->ok()) ended.push_back(local_rank);
            return ended;
          },
          [this](int local_rank) { return workers_.channels().progress(local_rank, Clock::now()); },
          [this](int signal) { workers_.signal_groups(signal); }};
}

WorkerWatch::Hooks Agent::watch_hooks() {
  return {[this] { return supervisor_.running_round(); },
          [this](std::vector<rendezvous::Standing> all) {
            contact_.send(rendezvous::NodeStandings{node(), seat_->round, std::move(all)});
          },
          [this](const rendezvous::LearnedTimes& learned) {
            contact_.send(rendezvous::NodeLearned{node(), seat_->round, learned});
          },
          [this](const HungWorker& worker) {
            hung_ = worker;
            reporter_.hang_found(worker.local_rank, worker.how, worker.stacks);
            dispatch(WorkerDying{worker.round, worker.local_rank, {.hung = true}});
          },
          [this](const std::map<int, WorkerSight>& seen) { looked(seen); },
          [this](const auto& local_ranks, const auto& stacks) { keep_stacks(local_ranks, stacks); }};
}

PaceWatch::Hooks Agent::pace_hooks() {
  return {[this] { return supervisor_.running_round(); },
          [this](std::vector<rendezvous::Pace> windows) {
            for (rendezvous::Pace& window : windows) window.rank = workers_.rank_of(window.rank);
            contact_.send(rendezvous::NodePace{node(), seat_->round, std::move(windows)});
          }};
}

void Agent::report_pace(const rendezvous::ReportPace& report) {
  if (supervisor_.running_round() != report.round) return;
  reporter_.pace_changed(report);
  job_events_.pace_changed(report);
}

void Agent::looked(const std::map<int, WorkerSight>& seen) {
  desk_.looked(seen);
  account_.look();
}

// A thread of its own writes: the log folder may be on the file server that does not answer.
void Agent::keep_stacks(const std::vector<int>& local_ranks, const std::vector<ProcessStacks>& stacks) {
  if (!layout_.keeps_logs()) return;
  std::vector<std::pair<std::filesystem::path, std::string>> files;
  for (std::size_t i = 0; i < local_ranks.size() && i < stacks.size(); ++i)
    files.emplace_back(workers_.records().at(local_ranks[i]).folder / "stacks.txt", to_text(stacks[i]));
  const SignalsBlocked blocked;
  std::thread([files = std::move(files)] {
    for (const auto& [path, text] : files) std::ofstream(path, std::ios::app) << text;
  }).detach();
}

}  // namespace ddprun::agent
