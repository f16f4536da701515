// The coordinator of a simulated job.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/simulated_coordinator.h"

namespace ddprun::test {

class ClusterAgent;
struct ClusterWorld;

class ClusterCoordinator : public SimulatedCoordinator {
 public:
  ClusterCoordinator(ClusterAgent& agent, const std::optional<Succession>& succession);

  Duration quorum_age() override;

  const int job;
  std::optional<TimePoint> account_begins;
  std::map<NodeId, int> workers_by_users;

 private:
  bool leads() const override;
  std::vector<Order> decide(const Message& message) override;
  void tell_spent(const Message& message);
  void form(const Round& decided) override;
  void start_round(const StartRound& order) override;
  void end_job(const EndJob& order) override;
  void hand_over(const HandOver& order) override;
  void note_act(const JobReply& reply) override;
  void note_left_out(NodeId id, const std::string& how) override;
  void send_record_to_standbys();
  void send_record_to_spares();
  void on_quorum_lost() override;
  void close(NodeId id, Network::LinkId link, bool closed) override;
  bool waits_for_workers() const override;
  bool refuses(NodeId id) const override;
  void send(NodeId id, Network::LinkId link, const ToAgent& message) override;

  ClusterAgent& agent_;
  ClusterWorld& world_;
  bool decided_end_ = false;  // the job's, before any other
};

}  // namespace ddprun::test
