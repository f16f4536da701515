// The coordinator of a simulated job, and the control port of its agent.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/simulated_coordinator.h"

namespace ddprun::test {

class Cluster;
class ClusterAgent;

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
  Cluster& cluster_;
  bool decided_end_ = false;  // the job's, before any other
};

// A hello is answered by the coordinator here, by the job's end, or by where another coordinator may be.
class ClusterPort {
 public:
  explicit ClusterPort(ClusterAgent& agent) : agent_(agent) {}
  void lead(const std::optional<Succession>& succession, TimePoint requested_at);
  void stop_leading(const Elsewhere& referral, std::optional<NodeId> at);
  bool leads() const { return leadership && !leadership->coordinator.is_over(); }
  void on_hello(ClusterAgent& from, Network::LinkId link, const RecordId& record);
  void on_message(NodeId id, const FromAgent& message);

  std::shared_ptr<ClusterCoordinator> leadership;  // null: it does not coordinate

 private:
  void take(ClusterAgent& from, Network::LinkId link);
  void answer_elsewhere(ClusterAgent& from, Network::LinkId link);

  ClusterAgent& agent_;
  Elsewhere elsewhere_;  // its answer to nodes that look for the coordinator
  std::optional<NodeId> elsewhere_at_;
};

// A seat names its job, too, only for the simulation.
std::string store_host(NodeId id, int job);
int job_of(const std::string& store_host);

}  // namespace ddprun::test
