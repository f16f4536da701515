// An agent's part in electing another coordinator of a simulated job.
#pragma once
#include <memory>
#include <optional>

#include "rendezvous/coordination/election/election.h"

namespace ddprun::test {

using namespace rendezvous;

class ClusterAgent;

class ClusterElection {
 public:
  explicit ClusterElection(ClusterAgent& agent);
  void on(const ElectionEvent& event, NodeId from = 0);
  const Election& value() const { return election_; }
  // Its agent follows itself, elected for this term.
  void announce_again(int term);
  void stop_announcing() { announcing_.reset(); }

 private:
  void execute(const ElectionAction& action, NodeId from);
  void ask_for_vote(NodeId voter, const std::shared_ptr<const VoteRequest>& request);
  void give_vote(NodeId candidate, const Vote& vote);
  void give_up(bool certain);
  void schedule();
  void on_elected(const Lead& won);
  void announce(int term, TimePoint until);

  ClusterAgent& agent_;
  Election election_;
  std::optional<TimePoint> tick_at_;      // planned
  std::optional<Lead> announcing_, led_;  // led_: the last term it was elected for
};

}  // namespace ddprun::test
