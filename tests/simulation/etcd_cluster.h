// A job of many nodes that find their coordinator through etcd, in one thread: the real values of agent, coordinator
// and election, a model of etcd, and clocks of which any two run at rates that differ by a factor of two at most. A
// seed decides which node fails, when, and how long every message takes. What sockets and timers do is repeated here,
// as in agent/link/etcd_link.cpp, coordinator_client.cpp and coordinator_server.cpp.
//
// Excused from "one round at a time": the workers of an agent that is paused as a whole (SIGSTOP) while its lease ends,
// until it has killed them after it goes on. Nobody else can end them, and the others cannot know.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/etcd_model.h"
#include "tests/simulation/network.h"
#include "tests/simulation/simulated_node.h"

namespace ddprun::test {

class EtcdAgent;

struct EtcdClusterOptions {
  int agents = 4;  // at the start
  int nodes_min = 1, nodes_max = 4;
  std::uint64_t seed = 0;
  double failure = 0.3;                  // chance that a worker fails in a round
  int period_ms = 240'000;               // of all faults, from the start; workers end well half a minute later
  double clock_error = 2;                // etcd's clock runs so much faster, or slower, than those of the machines
  std::optional<double> etcd_rate = {};  // exactly
  // Numbers of each fault.
  int kills = 0;        // of agents; another one is started soon
  double silent = 0.3;  // chance that a killed agent's host goes silent, too
  int pauses = 0;       // SIGSTOP of an agent, up to a minute
  int leaves = 0;       // SIGTERM
  int joins = 0;
  int strangers = 0;               // newcomers that reach etcd and no node, as long as there are faults
  int cuts = 0;                    // nodes cut from other nodes, up to 20 s
  int etcd_cuts = 0;               // nodes cut from etcd
  int etcd_cut_ms = 60'000;        // at most
  double cut_from_etcd_too = 0.2;  // the share of the others that are cut from it at the same time
  int both_cuts = 0;               // a node cut from all
  int divisions = 0;               // a node reaches etcd alone, and etcd is slow for the coordinator
  int outages = 0;                 // of etcd, up to a minute
  int slow_phases = 0;
  int leader_changes = 0;
  double coordinator_share = 0.5;  // of faults, that hit the coordinator's node
  bool loses_data = false;         // etcd, once
  bool all_die = false;            // all agents at once; others are started then
  double kill_at_end = 0;          // chance that the coordinator's node is killed when it has decided the job's end
  Duration last_call = std::chrono::seconds(5);
  unsigned stubborn_one_in = 8;  // workers do not end by SIGTERM
  EtcdBug bug = EtcdBug::none;
};

class EtcdCluster {
 public:
  explicit EtcdCluster(const EtcdClusterOptions& its_options);
  ~EtcdCluster();
  // Until no event is left, or for so long. Throws std::logic_error naming the violated invariant.
  void run(std::optional<Duration> until = {});
  // At the end of the job.
  void check_end();
  void kill_coordinator();
  int rounds() const { return static_cast<int>(started_.size()); }
  const std::string& transcript() const { return notes.text(); }

  // For its parts.
  EtcdAgent& node(NodeId id) { return *nodes_[id - 1]; }
  std::vector<NodeId> present_nodes() const;
  TimePoint last_fault() const { return TimePoint() + std::chrono::milliseconds(options.period_ms); }
  void trouble(Duration lasts);
  bool is_troubled() const;
  void check_takeover() const;
  void check_start(NodeId id, const RecordId& round);

  const EtcdClusterOptions options;
  Network net;
  Transcript notes{net};
  EtcdModel etcd;
  int calls = 0;                                // to store the record
  std::map<RecordId, NodeId> failing;           // the node whose worker will fail
  bool lost_data = false, begins_anew = false;  // begins_anew: who was in no round has asked an empty etcd
  bool keys_stay = false;                       // the last coordinator did not reach etcd when it left
  std::optional<Outcome> end;                   // that was decided first
  std::optional<Verdict> last_end;              // who comes later begins the job again

 private:
  double rate_of_etcd();
  EtcdAgent& add_node();
  void schedule_faults();
  void schedule_fault(int times, void (EtcdCluster::*fault)(EtcdAgent&));
  void at_some_time(int times, const std::function<void()>& what);
  void kill(EtcdAgent& agent);
  void pause(EtcdAgent& agent);
  void leave_job(EtcdAgent& agent);
  void cut_nodes(EtcdAgent& agent);
  void cut_etcd(EtcdAgent& agent);
  void cut_both(EtcdAgent& agent);
  void divide(EtcdAgent& agent);
  void cut_off(EtcdAgent& agent, Duration lasts);
  void come_as_stranger();
  void make_etcd_slow();
  void all_die();

  std::vector<std::unique_ptr<EtcdAgent>> nodes_;  // node 1 first
  int sides_ = 0;
  TimePoint trouble_until_;  // of other kinds than etcd's
  std::set<RecordId> started_;
  TimePoint round_began_;  // the newest one
};

}  // namespace ddprun::test
