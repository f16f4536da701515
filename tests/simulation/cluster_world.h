// What the parts of a simulated job have in common: its nodes, their places and the network. A place (slot) is a host
// on which nodes are started one after another; one is alive.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/simulation/cluster.h"
#include "tests/simulation/cluster_checks.h"
#include "tests/simulation/network.h"
#include "tests/simulation/simulated_node.h"

namespace ddprun::test {

class ClusterAgent;

struct ClusterWorld {
  explicit ClusterWorld(const ClusterOptions& its_options);
  ~ClusterWorld();

  ClusterAgent& node(NodeId id) { return *nodes[id - 1]; }
  std::vector<NodeId> live_nodes();
  std::optional<NodeId> leader();
  std::optional<NodeId> first_seated(NodeId except = 0);  // among the present ones
  std::size_t count_places() const { return std::min(slots.size(), static_cast<std::size_t>(options.places)); }
  // A place's port belongs to its slot: the node that took it after a dead one answers.
  NodeId who_answers(NodeId at);
  bool answers(NodeId at);

  ClusterAgent& add_node(Duration when, std::size_t slot);
  void restart_slot(std::size_t slot);
  bool all_slots_alive();

  const ClusterOptions options;
  Network net;
  Transcript transcript{net};
  ClusterChecks checks;
  std::vector<std::unique_ptr<ClusterAgent>> nodes;  // node 1 first
  std::set<NodeId> seated;                           // some may have left
  std::vector<NodeId> slots;                         // the last node started there
  int jobs = 0, starts = 0;                          // starts: restarts of nodes
  std::mt19937_64 measured;                          // for what agents tell of their rounds: it changes nothing else
  std::map<JobRound, NodeId> failing;                // the node whose worker will fail
  std::map<JobRound, NodeId> hanging;                // the node whose first worker hangs: no worker gets on
  int hangs_found = 0, acts_done = 0;
  std::vector<Act> acts;  // by their serial
};

// A seat names its job, too, only for the simulation.
std::string store_host(NodeId id, int job);
int job_of(const std::string& store_host);

}  // namespace ddprun::test
