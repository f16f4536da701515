// The workers of a node of a simulated job: when they start, fail, hang and end. They meet in their store
// (store_sessions.h) before they train.
#pragma once
#include <set>

#include "rendezvous/coordination/coordinator.h"
#include "tests/simulation/cluster_checks.h"

namespace ddprun::test {

class ClusterWorkers {
 public:
  explicit ClusterWorkers(ClusterAgent& agent) : agent_(agent) {}
  void start(const Seat& seat);
  void signal(int number);
  void be_killed();  // by the keeper of a dead agent
  void sweep(int round);
  void train();  // once they have met the others
  void end_one(const JobRound& of_round, int local_rank, const ExitStatus& status);
  // The coordinator wants to know who hangs, or says so.
  void on_asked(const AskStandings& asked);
  void blame(const BlameWorker& blamed);
  const JobRound& round() const { return round_; }

  int fences = 0;  // while there are any, no worker is started

 private:
  void start_from(int rank, const Seat& seat, const JobRound& of_round, bool slowly);
  void keep_snapshots(const Seat& seat);
  void hang();
  void send_standings();
  bool one_hangs_here() const;

  ClusterAgent& agent_;
  JobRound round_;
  std::set<int> ignoring_sigterm_;  // local ranks
  bool starting_ = false;           // some of the round's are to be started yet
};

}  // namespace ddprun::test
