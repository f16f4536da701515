// The control port of an agent of a simulated job: a hello is answered by the coordinator here, by the job's end, or by
// where another coordinator may be.
#pragma once
#include <memory>
#include <optional>

#include "tests/simulation/cluster_coordinator.h"

namespace ddprun::test {

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

}  // namespace ddprun::test
