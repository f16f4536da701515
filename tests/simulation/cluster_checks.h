// What must hold in a simulated job, at every step and at its end, and what it was like.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/election/election.h"

namespace ddprun::test {

using namespace rendezvous;

class ClusterAgent;
class ClusterCoordinator;
class Cluster;

struct JobRound {  // each job counts its own terms and rounds
  int job = 0;
  RecordId id = {};
  friend auto operator<=>(const JobRound&, const JobRound&) = default;
};

// Each throws std::logic_error naming the violated invariant.
class ClusterChecks {
 public:
  explicit ClusterChecks(Cluster& cluster);

  // A kill, a cut or a request to end, or the end of a cut. `cuts`: how many more, or less, are in force.
  void on_disturbance(int cuts = 0);
  void on_cut();
  // If faults have stopped with a quorum in reach, no node gives up: neither one that looks for the coordinator, nor
  // the coordinator that waits for nodes.
  void on_finish(const ClusterAgent& agent, const Outcome& outcome);
  void on_leave(const ClusterAgent& agent);

  void on_vote(int job, int term, NodeId candidate, NodeId voter);
  void on_elected(const ClusterAgent& agent, const Lead& won);
  // The parts of the job's time add up to the time that has passed. From one coordinator to the next the time is lost
  // in which the round's record was sent, and no more.
  void on_account(ClusterCoordinator& leadership, TimePoint now);

  void on_resize(const Act& act) { sizes_.insert({act.nodes_min, act.nodes_max}); }
  void on_round(const ClusterCoordinator& leadership, const Round& round);
  void on_confirmed(NodeId id, const JobRound& round) { to_confirm_[round].erase(id); }
  const std::vector<RoundNode>& nodes_of(const JobRound& round) const { return formed_.at(round); }
  void on_start(const JobRound& round);
  // Ranks are decided once per round, so no rank is held twice while all running workers belong to one round.
  void on_worker(NodeId id, const JobRound& round);
  void count_running(const JobRound& round, int change);

  // By a coordinator. True: no other has decided it before.
  bool on_end(const Outcome& outcome);
  bool has_ended() const { return ended_at_.has_value(); }
  void on_told_first(NodeId id) { notified_first_.insert(id); }  // by the one that decided it
  void at_the_end();

  bool none_started() const { return started_.empty(); }
  int rounds_from_snapshots() const { return rounds_from_snapshots_; }
  const RestartCounts& charged() const { return charged_; }
  const std::vector<Outcome>& outcomes() const { return outcomes_; }

 private:
  bool stays_coordinator(const ClusterAgent& agent) const;
  bool quorum_in_reach();
  bool has_enough_nodes();
  void check_size(const Round& round) const;
  void check_snapshots(const Round& round) const;
  void check_same_outcome();

  Cluster& cluster_;
  int cuts_ = 0;                              // cuts in force
  std::optional<TimePoint> calm_since_;       // no kill, cut or request to end since
  bool quorum_at_calm_ = false;               // at that time, among reachable nodes
  std::optional<TimePoint> all_alive_since_;  // calm, with a live node in every slot
  std::optional<TimePoint> ended_at_;
  std::optional<Outcome> end_;                                      // the first decision
  std::set<NodeId> notified_first_;                                 // told by its coordinator
  bool cut_at_end_ = false;                                         // some nodes were unreachable then, or since
  std::set<std::pair<int, int>> terms_;                             // jobs and terms with an elected node
  std::map<std::tuple<int, int, NodeId>, std::set<NodeId>> votes_;  // by job, term and candidate
  std::map<JobRound, std::set<NodeId>> to_confirm_;
  std::map<JobRound, std::vector<RoundNode>> formed_;
  std::set<std::pair<int, int>> sizes_;  // of rounds: what users have asked for, and what the job began with
  std::map<JobRound, int> running_;      // number of workers by round
  std::set<JobRound> started_;
  std::map<int, int> last_started_;  // round number by job
  std::map<int, TimePoint> jobs_began_;
  int rounds_from_snapshots_ = 0;
  RestartCounts charged_;
  std::vector<Outcome> outcomes_;
};

}  // namespace ddprun::test
