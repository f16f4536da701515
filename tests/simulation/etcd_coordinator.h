// The coordinator of a simulated job on etcd: it starts a round once etcd has its record.
#pragma once
#include <optional>

#include "tests/simulation/etcd_cluster.h"
#include "tests/simulation/simulated_coordinator.h"

namespace ddprun::test {

class EtcdCoordinator : public SimulatedCoordinator {
 public:
  EtcdCoordinator(EtcdAgent& agent, const Succession& from);
  void on_stored(const RecordId& id);

 private:
  bool leads() const override;
  void on_decided() override;
  void on_quorum_lost() override;
  void close(NodeId id, Network::LinkId link, bool closed) override;
  bool refuses(NodeId id) const override;
  void send(NodeId id, Network::LinkId link, const ToAgent& message) override;
  void form(const Round& round) override;
  void start_round(const StartRound& order) override { begin_round(order); }
  void hand_over(const HandOver& order) override { begin_round(order); }
  void begin_round(const Order& order);
  void on_round_end() override { waits_.reset(); }
  void end_job(const EndJob& order) override;
  void report_record();

  EtcdAgent& agent_;
  EtcdCluster& cluster_;
  RecordId stored_ = {};
  Round outside_;
  std::optional<Order> waits_ = {};
  int ledger_changes_ = 0;
  bool told_end_ = false;
};

}  // namespace ddprun::test
