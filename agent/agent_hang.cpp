// Workers that stand still: what they do is told to the coordinator, which finds the one to blame.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>
#include <utility>

#include "agent/agent.h"
#include "agent/hang/worker_sight.h"
#include "agent/process/process_state.h"
#include "agent/stacks/top_frame.h"
#include "rendezvous/base/signals_blocked.h"
#include "rendezvous/coordination/late.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::milliseconds kTellEvery{500};  // some become overdue just after the first
constexpr std::chrono::seconds kStandsStill{1};
constexpr std::chrono::seconds kStacksLimit{5}, kLastStacksLimit{1};
constexpr std::size_t kStandingMax = 8;    // of which stacks are taken before they are ended
constexpr std::size_t kSuspectsMax = 64;   // of which stacks are taken before their standings are told
constexpr std::chrono::seconds kFresh{8};  // older stacks are taken again

}  // namespace

void Agent::watch_hangs() {
  if (!options_.hang_limits.any() || !supervisor_.running_round()) return;
  look_at_workers();
  const TimePoint now = Clock::now();
  if (hangs_.any_overdue() && now - standings_sent_ >= kTellEvery) {
    standings_sent_ = now;
    tell_standings();
  }
  if (const auto learned = hangs_.news(now); learned && seat_)
    contact_.send(rendezvous::NodeLearned{node(), seat_->round, *learned});
  hang_timer_.expires_at(hangs_.next_look());
  hang_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) watch_hangs();
  });
}

void Agent::look_at_workers() {
  const TimePoint now = Clock::now();
  std::map<int, WorkerSight> seen;
  for (const auto& [local_rank, worker] : workers_.records())
    if (worker.pid != 0 && !worker.status)
      seen.emplace(local_rank, sight_of(workers_.channels().progress(local_rank, now)));
  for (auto& [local_rank, sight] : seen) {
    const pid_t pid = workers_.records().at(local_rank).pid;
    const bool stands_still = sight.at && now - *sight.at >= kStandsStill;
    if (!stands_still) processor_wait_.forget(pid);
    sight.traced = stands_still && is_traced(pid);
    sight.starved = stands_still ? processor_wait_.since_last_look(pid) : Duration::zero();
  }
  hangs_.look(seen, now);
  measure_steps(seen);
  if (!round_spent_) measure_round();
}

std::vector<rendezvous::Standing> Agent::standings() const {
  std::vector<rendezvous::Standing> out = hangs_.standings();
  for (rendezvous::Standing& one : out) {
    const WorkerRecord& worker = workers_.records().at(one.rank);
    if (one.age >= kStandsStill) add_process_state(worker.pid, one);
    const KnownStacks* known = known_stacks(one.rank);
    one.stopped |= known && known->stopped;
    if (one.activity != rendezvous::Activity::wait && known && known->top && known->top->in_collective) {
      one.activity = rendezvous::Activity::wait;
      one.collective = known->top->collective;
    }
    one.paused |= suspended_;
    one.rank = workers_.rank_of(one.rank);
  }
  for (const auto& [local_rank, worker] : workers_.records())
    if (worker.status && worker.status->ok())
      out.push_back({.rank = workers_.rank_of(local_rank), .activity = rendezvous::Activity::ended});
  return out;
}

// A program may not tell that it waits in a collective: its stack shows it. So whoever is late and does not wait is
// looked at first, all of them at once.
void Agent::tell_standings() {
  if (!seat_ || takes_stacks_for_round_ == seat_->round) return;
  if (suspended_) return send_standings();  // nobody is late, and what is seen now says nothing about later
  std::vector<int> suspects;
  std::vector<pid_t> pids;
  std::vector<std::optional<TimePoint>> since;
  std::vector<bool> stopped;
  const std::vector<rendezvous::Standing> all = hangs_.standings();
  const auto late = rendezvous::late_beside(all);
  for (const rendezvous::Standing& one : all) {
    if (!late(one) || one.activity == rendezvous::Activity::wait || known_stacks(one.rank)) continue;
    if (suspects.size() >= kSuspectsMax) break;
    suspects.push_back(one.rank);
    pids.push_back(workers_.records().at(one.rank).pid);
    since.push_back(hangs_.last_report(one.rank));
    stopped.push_back(process_state(pids.back()).letter == 'T');
  }
  if (suspects.empty() || stacks_->busy()) return send_standings();
  takes_stacks_for_round_ = seat_->round;
  stacks_->take(pids, kStacksLimit,
                [this, suspects, since, stopped, round = seat_->round](const std::vector<ProcessStacks>& stacks) {
                  takes_stacks_for_round_ = 0;
                  if (supervisor_.running_round() != round) return;
                  for (std::size_t i = 0; i < suspects.size(); ++i)
                    learn_stacks(suspects[i], since[i], stacks[i], stopped[i]);
                  look_at_workers();
                  send_standings();
                });
}

const Agent::KnownStacks* Agent::known_stacks(int local_rank) const {
  const auto known = known_stacks_.find(local_rank);
  if (known == known_stacks_.end() || known->second.since != hangs_.last_report(local_rank)) return nullptr;
  return Clock::now() - known->second.at < kFresh ? &known->second : nullptr;
}

// Those that could not be had are tried again.
void Agent::learn_stacks(int local_rank, std::optional<TimePoint> since, const ProcessStacks& stacks, bool stopped) {
  if (auto top = top_frame(stacks)) known_stacks_[local_rank] = {since, Clock::now(), stacks, std::move(top), stopped};
}

void Agent::send_standings() {
  if (!seat_) return;
  std::vector<rendezvous::Standing> all = standings();
  told_.clear();
  for (const rendezvous::Standing& one : all) {
    const int local_rank = one.rank - seat_->first_rank;
    told_[local_rank] = {hangs_.last_report(local_rank), one.activity == rendezvous::Activity::wait};
  }
  contact_.send(rendezvous::NodeStandings{node(), seat_->round, std::move(all)});
}

// After Ctrl-Z nobody is late: the time of waiting begins anew.
void Agent::suspend(bool suspended) {
  suspended_ = suspended;
  workers_.signal_groups(suspended ? SIGSTOP : SIGCONT);
  if (suspended) return;
  hangs_.forgive(Clock::now());
  known_stacks_.clear();  // of workers that were stopped
}

// First of all its stack is taken, if it is not known.
void Agent::blame(const rendezvous::BlameWorker& message) {
  if (!seat_ || supervisor_.running_round() != message.round) return;
  const int local_rank = message.rank - seat_->first_rank;
  const auto worker = workers_.records().find(local_rank);
  if (worker == workers_.records().end() || worker->second.status) return;
  look_at_workers();
  const Blamed blamed{message, told_[local_rank]};
  if (const KnownStacks* known = known_stacks(local_rank))
    return on_culprits_stacks(blamed, ProcessStacks(known->stacks));
  stacks_->take({worker->second.pid}, kStacksLimit, [this, blamed](const std::vector<ProcessStacks>& stacks) {
    on_culprits_stacks(blamed, stacks.front());
  });
}

// One that has gone on since is not to blame. If it is in a collective and was not told to be, it waits as the others
// do. In both cases the coordinator decides anew.
void Agent::on_culprits_stacks(const Blamed& blamed, const ProcessStacks& stacks) {
  const int local_rank = blamed.message.rank - seat_->first_rank;
  if (supervisor_.running_round() != blamed.message.round || workers_.records().at(local_rank).status) return;
  look_at_workers();
  if (hangs_.last_report(local_rank) != blamed.told.since) return tell_standings();
  if (!known_stacks(local_rank)) learn_stacks(local_rank, blamed.told.since, stacks, false);
  const auto top = top_frame(stacks);
  if (top && top->in_collective && !blamed.told.waits) return send_standings();
  keep_stacks({local_rank}, {stacks});
  hang_ = blamed.message.text + (top ? "; " + in_words(*top) : "");
  hang_of_all_ = blamed.message.of_all;
  reporter_.hang_found(local_rank, hang_, stacks);
  dispatch(WorkerDying{blamed.message.round, local_rank, {.hung = true}});
}

// Of workers that stand still when a failure of another one ends them: why they did is lost otherwise.
bool Agent::takes_stacks_before(int signal) {
  if (signal != SIGTERM || !seat_ || end_was_planned_ || contact_.signal() != 0 || !options_.hang_limits.any())
    return false;
  look_at_workers();
  std::vector<int> standing;
  std::vector<pid_t> pids;
  for (const rendezvous::Standing& one : hangs_.standings()) {
    if (!one.overdue || stacks_taken_.contains(one.rank) || standing.size() >= kStandingMax) continue;
    if (const KnownStacks* known = known_stacks(one.rank)) {
      keep_stacks({one.rank}, {known->stacks});
      continue;
    }
    standing.push_back(one.rank);
    pids.push_back(workers_.records().at(one.rank).pid);
  }
  if (standing.empty() || stacks_->busy()) return false;
  stacks_taken_.insert(standing.begin(), standing.end());
  stacks_->take(pids, kLastStacksLimit,
                [this, standing, signal, round = seat_->round](const std::vector<ProcessStacks>& stacks) {
                  if (supervisor_.round_with_workers() != round) return;  // they have ended by themselves
                  keep_stacks(standing, stacks);
                  send_signal(signal);
                });
  return true;
}

// A thread of its own writes: the log folder may be on the file server that does not answer.
void Agent::keep_stacks(const std::vector<int>& local_ranks, const std::vector<ProcessStacks>& stacks) {
  stacks_taken_.insert(local_ranks.begin(), local_ranks.end());
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
