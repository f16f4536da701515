#include "tests/simulation/cluster_world.h"

#include "tests/simulation/cluster_agent.h"

namespace ddprun::test {
namespace {

constexpr int kStartsMax = 60, kReturnsWithinMs = 10'000, kBusyMs = 60'000;

}  // namespace

std::string store_host(NodeId id, int job) { return "node" + std::to_string(id) + " " + std::to_string(job); }
int job_of(const std::string& store_host) { return std::stoi(store_host.substr(store_host.find(' '))); }

ClusterWorld::ClusterWorld(const ClusterOptions& its_options)
    : options(its_options), net(options.seed), checks(*this), measured(options.seed) {
  for (int i = 0; i < options.agents; ++i) add_node(net.milliseconds(60'000), slots.size());
  checks.on_disturbance();
}

ClusterWorld::~ClusterWorld() = default;

ClusterAgent& ClusterWorld::add_node(Duration when, std::size_t slot) {
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
void ClusterWorld::restart_slot(std::size_t slot) {
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

std::vector<NodeId> ClusterWorld::live_nodes() {
  std::vector<NodeId> out;
  for (const auto& one : nodes)
    if (one->is_present()) out.push_back(one->id);
  return out;
}

std::optional<NodeId> ClusterWorld::leader() {
  for (const NodeId id : live_nodes())
    if (node(id).port.leads()) return id;
  return {};
}

std::optional<NodeId> ClusterWorld::first_seated(NodeId except) {
  while (!seated.empty() && !node(*seated.begin()).is_present()) seated.erase(seated.begin());
  for (const NodeId id : seated)
    if (id != except && node(id).is_present()) return id;
  return {};
}

NodeId ClusterWorld::who_answers(NodeId at) {
  const ClusterAgent& there = node(at);
  if (there.listens() || !there.at_place) return at;
  const ClusterAgent& now = node(slots[there.slot]);
  return now.listens() && now.at_place ? now.id : at;
}

bool ClusterWorld::answers(NodeId at) { return node(at).listens() && !node(at).host_down; }

bool ClusterWorld::all_slots_alive() {
  return std::all_of(slots.begin(), slots.end(), [&](NodeId id) { return node(id).is_present() && !node(id).left; });
}

}  // namespace ddprun::test
