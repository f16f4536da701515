// A job of many nodes in one thread: the real coordinator and supervisors, a clock that only the simulation moves, and
// a seed that decides who fails, when, and how long every message takes. Messages between two parties keep their order,
// as on a connection; those of different nodes overtake each other.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "agent/supervisor.h"
#include "rendezvous/coordinator.h"

namespace ddprun::test {

struct ClusterOptions {
  int agents = 10;
  int workers_max = 8;  // per node, drawn from 1 up
  std::uint64_t seed = 0;
  double failure = 0.3;     // chance that a round sees one
  double deaf = 0.1;        // chance that a worker ignores SIGTERM
  double interrupt = 0.05;  // chance that somebody presses Ctrl-C at some time
  int max_restarts = 3;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  // Until nothing is left to happen. Throws std::logic_error naming the invariant that broke.
  void run();

  int rounds() const { return rounds_; }
  int restarts() const { return restarts_; }
  const std::vector<Outcome>& outcomes() const { return outcomes_; }  // one per agent that finished

 private:
  struct Node {
    Supervisor supervisor;
    int workers = 1;
    int round = 0;
    std::set<int> running, deaf;  // local ranks
    bool finished = false;
    TimePoint last_up, last_down;  // arrival of the last message, per direction
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
  void to_coordinator(int node, const Message& message);
  void to_node(int node, const Event& event);
  void obey(const Order& order);
  void happen(int node, const Event& event);
  void carry_out(int node, const Action& action);
  void start(int node, const Round& round);
  void end_worker(int node, int round, int local_rank, const ExitStatus& status);
  void plan_coordinator_tick();
  void plan_tick(int node);
  void hold_invariants() const;

  ClusterOptions options_;
  std::mt19937_64 random_;
  Coordinator coordinator_;
  std::vector<Node> nodes_;
  std::priority_queue<Happening> future_;
  TimePoint now_;
  std::uint64_t order_ = 0;
  int rounds_ = 0, restarts_ = 0;
  int failing_node_ = -1;  // of the current round
  std::vector<Outcome> outcomes_;
};

}  // namespace ddprun::test
