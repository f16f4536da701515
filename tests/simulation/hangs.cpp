// A worker hangs, and the others of its round wait for it. Their agents tell the coordinator once they are overdue.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/simulation/cluster.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kOverdueAfter = 2s, kTellEvery = 1s;

}  // namespace

// Called when its workers have met the others, and then as long as they run.
void Cluster::hang(NodeId id) {
  net_.after(kOverdueAfter + net_.milliseconds(1000), [this, id, round = node(id).round] {
    const auto tell = [this, id, round](const auto& again) -> void {
      if (node(id).round != round || node(id).running.empty() || !is_present(id)) return;
      send_standings(id);
      net_.after(kTellEvery, [again] { again(again); });
    };
    tell(tell);
  });
}

void Cluster::send_standings(NodeId id) {
  const Node& self = node(id);
  const auto hanging = hanging_.find(self.round);
  if (!self.store_session || stands(id)) return;
  std::vector<Standing> standings;
  for (const int local_rank : self.running) {
    Standing& one = standings.emplace_back(Standing{.rank = self.store_session->seat.first_rank + local_rank});
    if (hanging == hanging_.end() || !self.store_session->all_arrived) continue;
    const bool hangs = hanging->second == id && local_rank == 0;
    one.activity = hangs ? Activity::compute : Activity::wait;
    one.step = 41;
    one.age = std::max(kOverdueAfter, net_.now() - self.store_session->trains_since);
    one.overdue = true;
  }
  from_loop(id, NodeStandings{id, self.round.id.round, std::move(standings)});
}

void Cluster::blame(NodeId id, const BlameWorker& blamed) {
  Node& self = node(id);
  if (self.round.id.round != blamed.round || !self.store_session || !self.running.contains(0)) return;
  const auto hanging = hanging_.find(self.round);
  if (hanging == hanging_.end() || hanging->second != id || blamed.rank != self.store_session->seat.first_rank)
    throw std::logic_error("broken: only the worker that hangs is blamed: " + blamed.text);
  ++hangs_found_;
  note(id, "its worker hangs: " + blamed.text);
  dispatch(id, agent::WorkerDying{blamed.round, 0, {.hung = true}});
}

}  // namespace ddprun::test
