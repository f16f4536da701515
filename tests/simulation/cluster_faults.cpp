#include "tests/simulation/cluster_faults.h"

#include <csignal>
#include <iterator>
#include <vector>

#include "tests/simulation/cluster_agent.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

}  // namespace

void ClusterFaults::schedule() {
  const ClusterOptions& options = world_.options;
  if (world_.net.chance(options.interrupt))
    world_.net.after(world_.net.milliseconds(600'000), [this] {
      const auto all = world_.live_nodes();
      if (!all.empty()) any_of(all).be_signalled(SIGINT);
    });
  schedule_fault(options.kills, [](ClusterAgent& agent) { agent.be_killed(); });
  schedule_fault(options.cuts, [this](ClusterAgent& agent) { cut(agent); });
  schedule_fault(options.leaves, [](ClusterAgent& agent) { agent.be_asked_to_leave(); });
  schedule_fault(options.stalls, [this](ClusterAgent& agent) { stand(agent); });
  at_some_time(options.joins, [this] { join(); });
  at_some_time(options.acts, [this] { act(); });
}

void ClusterFaults::at_some_time(int times, const std::function<void()>& what) {
  for (int i = 0; i < times; ++i) world_.net.after(world_.net.milliseconds(world_.options.fault_period_ms), what);
}

void ClusterFaults::schedule_fault(int times, const std::function<void(ClusterAgent&)>& fault) {
  for (int i = 0; i < times; ++i)
    at_some_time(1, [this, fault, hits_coordinator = i < world_.options.coordinator_faults] {
      const auto all = world_.live_nodes();
      if (all.empty()) return;
      const auto head = world_.leader();
      fault(hits_coordinator && head ? world_.node(*head) : any_of(all));
    });
}

ClusterAgent& ClusterFaults::any_of(const std::vector<NodeId>& nodes) {
  return world_.node(nodes[world_.net.draw() % nodes.size()]);
}

// Some nodes on one side, the rest on the other.
void ClusterFaults::cut(const ClusterAgent& agent) {
  std::vector<NodeId> apart{agent.id};
  for (const NodeId other : world_.live_nodes())
    if (other != agent.id && world_.net.chance(0.3)) apart.push_back(other);
  ++sides_;
  for (const NodeId one : apart) world_.net.put(one, sides_), world_.node(one).note("out of the others' reach");
  for (const auto& one : world_.nodes) one->store.on_cut();
  world_.checks.on_cut();
  world_.net.after(world_.net.milliseconds(20'000), [this, apart] {
    for (const NodeId one : apart) {
      world_.net.put(one, 0);
      world_.net.put(world_.slots[world_.node(one).slot], 0);
      world_.node(one).note("in reach again");
    }
    world_.checks.on_disturbance(-1);
  });
}

void ClusterFaults::stand(ClusterAgent& agent) {
  if (!agent.stands()) agent.stand(1ms + world_.net.milliseconds(world_.net.chance(0.5) ? 10'000 : 60'000));
}

// Uses the first free slot; but not at the first place if new nodes alone could form a round, and begin another job
// before they are told that this one continues.
void ClusterFaults::join() {
  if (world_.checks.has_ended() || (!world_.checks.none_started() && !world_.first_seated()))
    return;  // it would be another job
  const ClusterOptions& options = world_.options;
  std::size_t slot = options.fixed_ranks || options.nodes_max > options.joins ? 0 : 1;
  while (slot < world_.slots.size() && world_.node(world_.slots[slot]).listens())
    ++slot;  // also for others only: its port is in use
  world_.add_node({}, slot).note(slot == 0 ? "comes, to the first place" : "comes");
}

// By whichever node is asked, about any node.
void ClusterFaults::act() {
  constexpr ActKind kinds[] = {ActKind::restart, ActKind::drain,       ActKind::admit,
                               ActKind::resize,  ActKind::add_workers, ActKind::remove_workers};
  const auto all = world_.live_nodes();
  if (all.empty()) return;
  Network& net = world_.net;
  std::vector<Act>& acts = world_.acts;
  const int least = 1 + net.up_to(world_.options.agents - 1);
  acts.push_back({.kind = kinds[net.draw() % std::size(kinds)],
                  .node = "node" + std::to_string(any_of(all).id),
                  .nodes_min = least,
                  .nodes_max = least + net.up_to(world_.options.agents),
                  .by = "a user",
                  .workers = 1 + net.up_to(2)});
  if (changes_workers(acts.back().kind) && net.chance(0.3)) acts.back().node.clear();
  ClusterAgent& asked = any_of(all);
  if (!asked.stands()) asked.from_loop(Asked{asked.id, static_cast<int>(acts.size()) - 1, acts.back()});
}

}  // namespace ddprun::test
