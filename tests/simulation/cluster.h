// A job of many nodes in one thread: the real supervisors, elections, coordinators and stores, a clock that only the
// simulation moves, and a seed that decides which node fails, when, and how long every message takes. The handling of
// connections and leases is repeated here without sockets, as in agent/link/job_link.cpp and
// rendezvous/coordination/server/coordinator_server.cpp.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/cluster_checks.h"
#include "tests/simulation/network.h"
#include "tests/simulation/simulated_node.h"

namespace ddprun::test {

// Bugs that a test can inject.
enum class Bug {
  none,
  no_fence,         // a lost node's workers are considered dead at once
  no_lease,         // an unreachable node does not end its workers
  vote_twice,       // an agent forgets its vote
  count_twice,      // a candidate counts every vote twice
  no_quorum,        // a coordinator always believes it is in contact with a quorum
  no_confirmation,  // workers start as soon as their agent has its seat
  no_candidates,    // no node stands for election
  standing,         // a link does not end the workers of an agent whose loop stands
  unspoken,         // a connection counts as contact before the agent's loop has said which workers it has
  old_orders,       // a loop that goes on carries out the orders of a connection that was out of reach for a lease
  old_keys,         // a node's store keeps the keys of the previous round
  no_waiting,       // a coordinator without a round stops for good if a node knows of one
  silent_end        // a node that was told the job's end leaves without telling the others
};

struct ClusterOptions {
  int agents = 10;  // at the start
  int nodes_min = 10, nodes_max = 10;
  bool fixed_ranks = false;
  int workers_max = 8;  // per node, drawn from 1 up
  std::uint64_t seed = 0;
  double failure = 0.3;         // chance that a worker fails in a round
  double hang = 0;              // chance that a worker hangs in a round, and all others wait for it
  double ignore_sigterm = 0.1;  // chance that a worker ignores SIGTERM
  double slow_sweep = 0.1;      // chance that workers' leftovers do not end at once
  double slow_starts = 0;       // chance that a node's workers start one after the other, within a second each
  double interrupt = 0.05;      // chance of a Ctrl-C at some time
  int max_restarts = 3;
  int exclude_after = 3;  // failures of a node's workers, for a few minutes
  // Numbers of each fault. The first node is at the endpoint.
  int kills = 0;                  // SIGKILL to an agent
  int fault_period_ms = 300'000;  // period of the faults, from the start
  int cuts = 0;                   // some nodes are unreachable for up to 20 s
  int leaves = 0;                 // SIGTERM to a node
  int stalls = 0;                 // an agent's loop stands for up to a minute, and its link answers
  int joins = 0;                  // a new node joins; in a dead one's place, first of all at the job's first place
  int acts = 0;                   // what users do: restart, drain, admit, resize, add and remove workers
  int places = 1;                 // number of endpoints, those of the first nodes
  bool returns = false;   // killed nodes, and those that end to be restarted, come back without state in their place
  double silent = 0;      // chance that a killed node's host goes silent, too, until it is back
  double slow_names = 0;  // chance that the look-up of a place takes up to 8 s
  double busy_ports = 0;  // chance that a place's port is busy for up to a minute when its node starts
  int coordinator_faults = 0;  // number of kills, cuts and leaves that hit the coordinator's node
  double kill_at_end = 0;      // chance that the coordinator's node is killed after deciding the job's end
  Bug bug = Bug::none;
};

// A place (slot) is a host on which nodes are started one after another; one is alive.
class Cluster {
 public:
  explicit Cluster(const ClusterOptions& its_options);
  ~Cluster();
  // Runs until no event is left. Throws std::logic_error naming the violated invariant.
  void run();
  int rounds_from_snapshots() const { return checks.rounds_from_snapshots(); }
  const RestartCounts& charged() const { return checks.charged(); }
  // Of nodes told by the coordinator that decided the job's end, neither killed nor asked to leave.
  const std::vector<Outcome>& outcomes() const { return checks.outcomes(); }
  const std::string& transcript() const { return notes.text(); }

  // For its parts.
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
  Transcript notes{net};
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

 private:
  void schedule_faults();
  void at_some_time(int times, const std::function<void()>& what);
  // To any node; the first ones hit the coordinator's.
  void schedule_fault(int times, const std::function<void(ClusterAgent&)>& fault);
  void cut(const ClusterAgent& agent);
  void stand(ClusterAgent& agent);
  void join();
  void act();
  ClusterAgent& any_of(const std::vector<NodeId>& nodes);
  int sides_ = 0;
};

}  // namespace ddprun::test
