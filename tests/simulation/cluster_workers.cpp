#include "tests/simulation/cluster_workers.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/simulation/cluster_agent.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kOverdueAfter = 2s, kTellEvery = 1s;  // of workers that wait for one that hangs

}  // namespace

void ClusterWorkers::start(const Seat& seat) {
  require(agent_.running.empty(), "no local rank is started twice");
  round_ = {agent_.job, agent_.newest};
  agent_.world.checks.on_start(round_);
  keep_snapshots(seat);
  ignoring_sigterm_.clear();
  starting_ = true;
  const double slow_starts = agent_.world.options.slow_starts;
  start_from(0, seat, round_, slow_starts > 0 && agent_.net.chance(slow_starts));
}

void ClusterWorkers::start_from(int rank, const Seat& seat, const JobRound& of_round, bool slowly) {
  if (agent_.stands())
    return agent_.on_loop([this, rank, seat, of_round, slowly] { start_from(rank, seat, of_round, slowly); });
  if (!agent_.is_present() || round_ != of_round || !starting_) return;
  ClusterWorld& world = agent_.world;
  for (bool first = true; rank < seat.workers; ++rank) {
    if (!std::exchange(first, false) && slowly)
      return world.net.after(world.net.milliseconds(1'000),
                             [this, rank, seat, of_round] { start_from(rank, seat, of_round, true); });
    if (fences > 0 && world.options.bug != Bug::old_orders) return;
    world.checks.on_worker(agent_.id, of_round);
    agent_.running.insert(rank);
    world.checks.count_running(of_round, 1);
    if (world.net.chance(world.options.ignore_sigterm)) ignoring_sigterm_.insert(rank);
    agent_.dispatch(agent::WorkerStarted{seat.round, rank});
  }
  starting_ = false;
  agent_.store.open_session(seat, round_);
}

// Of its own ranks and those of the node before: what they go on from, and some steps of this round.
void ClusterWorkers::keep_snapshots(const Seat& seat) {
  const std::vector<RoundNode>& nodes = agent_.world.checks.nodes_of(round_);
  const auto own = static_cast<std::size_t>(seat.group_rank);
  std::vector<HeldSnapshot> held;
  for (const std::size_t at : {own, (own + nodes.size() - 1) % nodes.size()})
    for (int rank = nodes[at].first_rank; rank < nodes[at].first_rank + nodes[at].workers; ++rank) {
      if (seat.kept) held.push_back({rank, seat.world_size, seat.kept->round, seat.kept->step});
      const int steps = (seat.round + rank) % 3 == 0 ? 1 : 2;
      for (int step = 1; step <= steps; ++step)
        held.push_back({rank, seat.world_size, seat.round, static_cast<std::uint64_t>(step)});
    }
  agent_.offer.held = held;
}

void ClusterWorkers::signal(int number) {
  if (!agent_.stands()) starting_ = false;
  for (const int rank : agent_.running) {
    if (number != SIGKILL && ignoring_sigterm_.contains(rank)) continue;
    agent_.net.after(agent_.net.milliseconds(number == SIGKILL ? 20 : 500),
                     [this, of_round = round_, rank, number] { end_one(of_round, rank, {.signal = number}); });
  }
}

void ClusterWorkers::be_killed() {
  agent_.world.checks.count_running(round_, -static_cast<int>(agent_.running.size()));
  agent_.running.clear();
  agent_.store.close_session();
}

// Processes that a driver blocks end late, or are given up.
void ClusterWorkers::sweep(int round) {
  starting_ = false;
  require(agent_.running.empty(), "a round is swept when its workers are gone");
  if (!agent_.net.chance(agent_.world.options.slow_sweep)) return agent_.dispatch(agent::Swept{round});
  agent_.note("the kernel holds what is left of its workers");
  agent_.net.after(agent_.net.milliseconds(12'000), [this, round] { agent_.dispatch(agent::Swept{round}); });
}

void ClusterWorkers::train() {
  ClusterWorld& world = agent_.world;
  if (world.hanging.contains(round_)) return hang();
  const auto failing = world.failing.find(round_);
  for (const int rank : agent_.running) {
    ExitStatus status;
    if (failing != world.failing.end() && failing->second == agent_.id && rank == 0)
      status = world.net.chance(0.5) ? ExitStatus{.signal = SIGKILL} : ExitStatus{.code = 1};
    world.net.after(30s + world.net.milliseconds(60'000),
                    [this, of_round = round_, rank, status] { end_one(of_round, rank, status); });
  }
}

void ClusterWorkers::end_one(const JobRound& of_round, int local_rank, const ExitStatus& status) {
  if (round_ != of_round || !agent_.running.erase(local_rank)) return;  // it has ended already
  agent_.world.checks.count_running(of_round, -1);
  if (agent_.running.empty()) agent_.store.close_session();
  agent_.dispatch(agent::WorkerExited{of_round.id.round, local_rank, status});
}

// A worker of the round hangs, and the others wait for it. Their agents tell the coordinator once they are overdue, as
// long as they run.
void ClusterWorkers::hang() {
  agent_.net.after(kOverdueAfter + agent_.net.milliseconds(1000), [this, of_round = round_] {
    const auto tell = [this, of_round](const auto& again) -> void {
      if (round_ != of_round || agent_.running.empty() || !agent_.is_present()) return;
      send_standings();
      agent_.net.after(kTellEvery, [again] { again(again); });
    };
    tell(tell);
  });
}

bool ClusterWorkers::one_hangs_here() const {
  const auto hanging = agent_.world.hanging.find(round_);
  return hanging != agent_.world.hanging.end() && hanging->second == agent_.id;
}

void ClusterWorkers::send_standings() {
  const auto& session = agent_.store.session();
  if (!session || agent_.stands()) return;
  std::vector<Standing> standings;
  for (const int local_rank : agent_.running) {
    Standing& one = standings.emplace_back(Standing{.rank = session->seat.first_rank + local_rank});
    if (!agent_.world.hanging.contains(round_) || !session->all_arrived) continue;
    one.activity = one_hangs_here() && local_rank == 0 ? Activity::compute : Activity::wait;
    one.step = 41;
    one.age = std::max(kOverdueAfter, agent_.now() - session->trains_since);
    one.overdue = true;
  }
  agent_.from_loop(NodeStandings{agent_.id, round_.id.round, std::move(standings)});
}

void ClusterWorkers::on_asked(const AskStandings& asked) {
  if (asked.round == round_.id.round) send_standings();
}

void ClusterWorkers::blame(const BlameWorker& blamed) {
  const auto& session = agent_.store.session();
  if (round_.id.round != blamed.round || !session || !agent_.running.contains(0)) return;
  if (!one_hangs_here() || blamed.rank != session->seat.first_rank)
    require(false, "only the worker that hangs is blamed: " + blamed.text);
  ++agent_.world.hangs_found;
  agent_.note("its worker hangs: " + blamed.text);
  agent_.dispatch(agent::WorkerDying{blamed.round, 0, {.hung = true}});
}

}  // namespace ddprun::test
