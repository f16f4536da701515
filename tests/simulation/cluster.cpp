#include "tests/simulation/cluster.h"

#include "tests/simulation/cluster_agent.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr int kStartsMax = 60, kReturnsWithinMs = 10'000, kBusyMs = 60'000, kEventsMax = 20'000'000;

}  // namespace

Cluster::Cluster(const ClusterOptions& its_options)
    : options(its_options), net(options.seed), checks(*this), measured(options.seed) {
  for (int i = 0; i < options.agents; ++i) add_node(net.milliseconds(60'000), slots.size());
  checks.on_disturbance();
  schedule_faults();
}

Cluster::~Cluster() = default;

void Cluster::run() {
  for (int events = 0; net.step(); ++events) require(events < kEventsMax, "the job comes to an end");
  checks.at_the_end();
}

ClusterAgent& Cluster::add_node(Duration when, std::size_t slot) {
  const NodeId id = nodes.size() + 1;
  nodes.push_back(std::make_unique<ClusterAgent>(id, slot, *this));
  ClusterAgent& added = *nodes.back();
  if (slot == slots.size())
    slots.push_back(0);
  else
    net.put(id, net.side(slots[slot]));
  slots[slot] = id;
  added.offer = {.workers = 1 + net.up_to(options.workers_max - 1), .host = "node" + std::to_string(id), .port = 1000};
  added.offer.workers_most = added.offer.workers + 4;
  if (options.fixed_ranks) added.offer.requested_rank = static_cast<int>(slot);
  if (slot < static_cast<std::size_t>(options.places)) {
    const bool busy = options.busy_ports > 0 && net.chance(options.busy_ports);
    net.after(busy ? net.milliseconds(kBusyMs) : Duration::zero(), [&added] { added.listen_at_place(); });
  }
  net.after(when, [&added] { added.connect(); });
  return added;
}

// Done by whatever restarts nodes: a person, a scheduler.
void Cluster::restart_slot(std::size_t slot) {
  if (!options.returns || checks.has_ended() || ++starts > kStartsMax) return;
  net.after(net.milliseconds(kReturnsWithinMs), [this, slot] {
    ClusterAgent& before = node(slots[slot]);
    if (checks.has_ended() || before.is_present()) return;
    if (before.listens()) return restart_slot(slot);  // it stays for others: its port is in use
    before.host_down = false;
    before.close_links();
    add_node({}, slot).note("is started again, in the place of node" + std::to_string(before.id));
    checks.on_disturbance();
  });
}

std::vector<NodeId> Cluster::live_nodes() {
  std::vector<NodeId> out;
  for (const auto& one : nodes)
    if (one->is_present()) out.push_back(one->id);
  return out;
}

std::optional<NodeId> Cluster::leader() {
  for (const NodeId id : live_nodes())
    if (node(id).port.leads()) return id;
  return {};
}

std::optional<NodeId> Cluster::first_seated(NodeId except) {
  while (!seated.empty() && !node(*seated.begin()).is_present()) seated.erase(seated.begin());
  for (const NodeId id : seated)
    if (id != except && node(id).is_present()) return id;
  return {};
}

NodeId Cluster::who_answers(NodeId at) {
  const ClusterAgent& there = node(at);
  if (there.listens() || !there.at_place) return at;
  const ClusterAgent& now = node(slots[there.slot]);
  return now.listens() && now.at_place ? now.id : at;
}

bool Cluster::answers(NodeId at) { return node(at).listens() && !node(at).host_down; }

bool Cluster::all_slots_alive() {
  return std::all_of(slots.begin(), slots.end(), [&](NodeId id) { return node(id).is_present() && !node(id).left; });
}

void Cluster::schedule_faults() {
  if (net.chance(options.interrupt))
    net.after(net.milliseconds(600'000), [this] {
      const auto all = live_nodes();
      if (!all.empty()) any_of(all).be_signalled(SIGINT);
    });
  schedule_fault(options.kills, [](ClusterAgent& agent) { agent.be_killed(); });
  schedule_fault(options.cuts, [this](ClusterAgent& agent) { cut(agent); });
  schedule_fault(options.leaves, [](ClusterAgent& agent) { agent.be_asked_to_leave(); });
  schedule_fault(options.stalls, [this](ClusterAgent& agent) { stand(agent); });
  at_some_time(options.joins, [this] { join(); });
  at_some_time(options.acts, [this] { act(); });
}

void Cluster::at_some_time(int times, const std::function<void()>& what) {
  for (int i = 0; i < times; ++i) net.after(net.milliseconds(options.fault_period_ms), what);
}

void Cluster::schedule_fault(int times, const std::function<void(ClusterAgent&)>& fault) {
  for (int i = 0; i < times; ++i)
    at_some_time(1, [this, fault, hits_coordinator = i < options.coordinator_faults] {
      const auto all = live_nodes();
      if (all.empty()) return;
      const auto head = leader();
      fault(hits_coordinator && head ? node(*head) : any_of(all));
    });
}

ClusterAgent& Cluster::any_of(const std::vector<NodeId>& nodes) { return node(nodes[net.draw() % nodes.size()]); }

// Some nodes on one side, the rest on the other.
void Cluster::cut(const ClusterAgent& agent) {
  std::vector<NodeId> apart{agent.id};
  for (const NodeId other : live_nodes())
    if (other != agent.id && net.chance(0.3)) apart.push_back(other);
  ++sides_;
  for (const NodeId one : apart) net.put(one, sides_), node(one).note("out of the others' reach");
  for (const auto& one : nodes) one->store.on_cut();
  checks.on_cut();
  net.after(net.milliseconds(20'000), [this, apart] {
    for (const NodeId one : apart) {
      net.put(one, 0);
      net.put(slots[node(one).slot], 0);
      node(one).note("in reach again");
    }
    checks.on_disturbance(-1);
  });
}

void Cluster::stand(ClusterAgent& agent) {
  if (!agent.stands()) agent.stand(1ms + net.milliseconds(net.chance(0.5) ? 10'000 : 60'000));
}

// Uses the first free slot; but not at the first place if new nodes alone could form a round, and begin another job
// before they are told that this one continues.
void Cluster::join() {
  if (checks.has_ended() || (!checks.none_started() && !first_seated())) return;  // it would be another job
  std::size_t slot = options.fixed_ranks || options.nodes_max > options.joins ? 0 : 1;
  while (slot < slots.size() && node(slots[slot]).listens()) ++slot;  // also for others only: its port is in use
  add_node({}, slot).note(slot == 0 ? "comes, to the first place" : "comes");
}

// By whichever node is asked, about any node.
void Cluster::act() {
  constexpr ActKind kinds[] = {ActKind::restart, ActKind::drain,       ActKind::admit,
                               ActKind::resize,  ActKind::add_workers, ActKind::remove_workers};
  const auto all = live_nodes();
  if (all.empty()) return;
  const int least = 1 + net.up_to(options.agents - 1);
  acts.push_back({.kind = kinds[net.draw() % std::size(kinds)],
                  .node = "node" + std::to_string(any_of(all).id),
                  .nodes_min = least,
                  .nodes_max = least + net.up_to(options.agents),
                  .by = "a user",
                  .workers = 1 + net.up_to(2)});
  if (changes_workers(acts.back().kind) && net.chance(0.3)) acts.back().node.clear();
  ClusterAgent& asked = any_of(all);
  if (!asked.stands()) asked.from_loop(Asked{asked.id, static_cast<int>(acts.size()) - 1, acts.back()});
}

}  // namespace ddprun::test
