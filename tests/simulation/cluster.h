// A job of many nodes in one thread: the real coordinator and supervisors, a clock that only the simulation moves, and
// a seed that decides who fails, when, and how long every message takes. Messages on one connection keep their order;
// those of different nodes overtake each other. What breaks a connection loses what was on its way.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "agent/supervisor.h"
#include "rendezvous/coordinator.h"

namespace ddprun::test {

struct ClusterOptions {
  int agents = 10;  // at the start
  int nodes_min = 10, nodes_max = 10;
  bool fixed_ranks = false;
  int workers_max = 8;  // per node, drawn from 1 up
  std::uint64_t seed = 0;
  double failure = 0.3;     // chance that a round sees a worker fail
  double deaf = 0.1;        // chance that a worker ignores SIGTERM
  double interrupt = 0.05;  // chance that somebody presses Ctrl-C at some time
  int max_restarts = 3;
  // So many of each in the first five minutes.
  int kills = 0;      // SIGKILL to an agent
  int cuts = 0;       // a node is out of reach, for up to 20 s
  int leaves = 0;     // SIGTERM to a node
  int joins = 0;      // another node comes
  bool fence = true;  // false breaks the code: a lost node's workers are taken for dead at once
  bool lease = true;  // false breaks the code: a node out of reach lets its workers live
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  // Until nothing is left to happen. Throws std::logic_error naming the invariant that broke.
  void run();

  int rounds() const { return rounds_; }
  const RestartCounts& charged() const { return charged_; }
  // Of those that were there to the end: neither killed, nor refused, nor asked to leave.
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::string& transcript() const { return transcript_; }  // what happened, a line each

 private:
  struct Node {
    Supervisor supervisor;
    NodeOffer offer;
    int round = 0;
    std::set<int> running, deaf;  // local ranks
    bool alive = true, finished = false, left = false;
    int connection = 0;      // counts them; 0: none yet
    bool connected = false;  // as the node sees it
    bool reachable = true;
    int signal = 0;                 // somebody wants it to end
    TimePoint last_up, last_down;   // arrival of the last message, per direction
    std::deque<Event> events = {};  // those that come up while an action is carried out wait for their turn
    bool handling = false;
  };
  struct Happening {
    TimePoint when;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Happening& other) const { return std::tie(other.when, other.order) < std::tie(when, order); }
  };

  void after(Duration delay, std::function<void()> what);
  Duration milliseconds(int max);
  bool chance(double probability);
  void note(const std::string& line);
  Node& node(NodeId id) { return nodes_.at(id); }
  std::vector<NodeId> living() const;

  NodeId add_node(Duration when);
  void plan_troubles();
  void some_time(void (Cluster::*trouble)(NodeId));
  void kill_agent(NodeId id);
  void cut(NodeId id);
  void leave(NodeId id);
  void signal(NodeId id, int signal);
  void tell_of_signal(NodeId id);
  void connect(NodeId id);
  void disconnect(NodeId id, TimePoint workers_until, const std::string& how);
  void find_closed(NodeId id);

  void to_coordinator(NodeId id, const Message& message);
  void coordinate(const Message& message);
  void to_node(NodeId id, const Event& event);
  void to_round(const Event& event);
  void to_all(const Event& event);
  void obey(const Order& order);
  void form(const Round& round);
  void happen(NodeId id, const Event& event);
  void carry_out(NodeId id, const Action& action);
  void signal_workers(NodeId id, int signal);
  void start(NodeId id, const Seat& seat);
  void end_worker(NodeId id, int round, int local_rank, const ExitStatus& status);
  void plan_coordinator_tick();
  void plan_tick(NodeId id);
  void hold_invariants(int starting) const;

  ClusterOptions options_;
  std::mt19937_64 random_;
  Coordinator coordinator_;
  std::map<NodeId, Node> nodes_;
  std::priority_queue<Happening> future_;
  TimePoint now_;
  std::uint64_t order_ = 0;
  int rounds_ = 0;
  RestartCounts charged_;
  Round round_;
  NodeId failing_node_ = 0;  // of the current round; 0: none
  std::vector<Outcome> outcomes_;
  std::string transcript_;
};

}  // namespace ddprun::test
