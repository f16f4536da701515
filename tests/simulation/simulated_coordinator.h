// A coordinator and its connections to agents, without sockets: as in rendezvous/coordination/server.
//
// An agent may drop its coordinator while it carries out an order: what is called later holds a share of it, and asks
// whether it leads.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/simulated_node.h"

namespace ddprun::test {

// Its owner may let it go while one of its functions runs: each that may cause that keeps it.
class SimulatedCoordinator : public std::enable_shared_from_this<SimulatedCoordinator> {
 public:
  // `probe_least`: before a lost node is probed.
  SimulatedCoordinator(SimulatedNode& host, Coordinator decisions, CoordinatorLiveness contacts, const RecordId& record,
                       Duration probe_least);
  virtual ~SimulatedCoordinator() = default;

  // With these members of the last round, that have not come yet.
  void begin(const std::vector<RoundNode>& members);
  // A quorum was in contact so long ago.
  virtual Duration quorum_age() { return liveness.quorum_age(coordinator, host_.now()); }
  bool holds(NodeId id, Network::LinkId link) const;
  void add(NodeId id, Network::LinkId link);
  void on_message(NodeId id, const FromAgent& message);
  // `closed`: the agent knows it.
  void lose(NodeId id, const std::string& how, bool closed = false);
  void coordinate(const Message& message);
  void send_record_to_spare(NodeId id);
  bool all_left() const { return coordinator.all_notified() && peers.empty(); }

  Coordinator coordinator;
  CoordinatorLiveness liveness;
  RecordId newest;
  std::optional<Round> record;
  std::map<NodeId, Network::LinkId> peers;

 protected:
  virtual bool leads() const = 0;
  virtual void form(const Round& round) = 0;
  virtual void start_round(const StartRound& order) = 0;
  virtual void on_round_end() {}
  virtual void end_job(const EndJob& order) = 0;
  virtual void hand_over(const HandOver& order) = 0;
  virtual void note_act(const JobReply&) {}
  virtual void note_left_out(NodeId, const std::string&) {}
  virtual std::vector<Order> decide(const Message& message) { return coordinator.on(message, host_.now()); }
  virtual void on_decided() {}
  virtual void on_quorum_lost() = 0;
  virtual void close(NodeId id, Network::LinkId link, bool closed) = 0;
  virtual bool waits_for_workers() const { return true; }
  // Its workers and its agent are dead, and another process says so.
  virtual bool refuses(NodeId id) const = 0;
  virtual void send(NodeId id, Network::LinkId link, const ToAgent& message) = 0;
  void note_forming(const Round& round);
  void to_node(NodeId id, const ToAgent& message);
  void to_all(const ToAgent& message);
  void to_round(const ToAgent& message);

  SimulatedNode& host_;

 private:
  void execute(const Order& order);
  void probe(NodeId id);
  void check_leases();
  void schedule_tick();

  const Duration probe_least_;
  std::optional<TimePoint> tick_at_;  // planned
};

}  // namespace ddprun::test
