// An agent of a simulated job on etcd: its clock, its workers, and its connection to the coordinator, as in
// agent/link/etcd_link.cpp and coordinator_client.cpp.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/simulation/etcd_coordinator.h"
#include "tests/simulation/etcd_requests.h"

namespace ddprun::test {

constexpr Duration kWorkersGoOn = std::chrono::seconds(30);  // after the last fault

class EtcdAgent : public SimulatedNode {
 public:
  EtcdAgent(NodeId own, EtcdCluster& its_cluster);

  TimePoint now() const override;
  void after(Duration by_its_clock, const std::function<void()>& what) override;
  void on_node(const std::function<void()>& what);  // later, if it is paused; never, if it is dead
  bool is_paused() const { return net.now() < paused_until_; }
  bool is_excused() const;
  // Its process is dead, and another one or the kernel says so.
  bool refuses() const { return running.empty() && !host_down && (!alive || exited); }
  const RecordId& round() const { return round_; }  // of its workers

  void die(bool silent);
  void pause(Duration lasts);
  void be_asked_to_leave();

  void lead(const LeadJob& action);
  void stop_leading();
  void stop_leading_for(int term);
  void step_down();  // by itself
  // The coordinator that etcd names, or one of the last round's nodes. Returns the number of this search.
  void follow(NodeId holder);
  int look_for(const std::vector<RoundNode>& nodes);
  bool still_looks(int look) const { return is_present() && looks_ == look && !welcome && !leadership; }
  void learn_end(const Outcome& outcome);

  void try_again(bool gone);
  void hang_up(Network::LinkId its_link);
  void answer(NodeId to, Network::LinkId by, const ToAgent& message);
  void to_coordinator(const FromAgent& message) override;

  EtcdCluster& cluster;
  EtcdRequests etcd;
  std::shared_ptr<EtcdCoordinator> leadership;  // null: it does not coordinate

 private:
  void connect_to(NodeId at);
  void connect();
  void reach(NodeId at, int its_attempt);
  void on_closed(Network::LinkId its_link);
  void on_hello(NodeId from, Network::LinkId by, const RecordId& record);
  void on_answer(const EtcdAgent& from, Network::LinkId by, const ToAgent& message);
  void on_welcome(const Welcome& message);
  void on_elsewhere(const Elsewhere& referral, NodeId at);
  void on_message(const ToAgent& message);
  void on_round(const RecordId& round, int group_rank);
  void keep_places(const std::vector<RoundNode>& nodes, std::size_t first);
  void on_end(const EndJob& message);
  void on_lease_over() override;
  void send_signal() override;
  void start(const Seat& seat) override;
  void signal_workers(int number) override;
  void end_worker(const RecordId& of_round, int local_rank, const ExitStatus& status);
  void disconnect() override;
  void leave() override;
  bool may_exit() const override;
  void exit() override;

  double rate_ = 1;  // of its clock
  Duration base_ = {};
  TimePoint paused_until_ = {}, excused_until_ = TimePoint::min();  // by the simulation's clock
  std::deque<std::function<void()>> to_do_ = {}, due_ = {};         // messages and timers, while it is paused
  RecordId round_ = {};
  int referrals_ = 0, looks_ = 0;
  Duration pause_ = {};
  NodeId coordinator_ = 0, holder_ = 0, welcomed_by_ = 0;
  std::vector<NodeId> fallbacks_ = {};
  Elsewhere elsewhere_ = {};
  NodeId elsewhere_at_ = 0;
};

}  // namespace ddprun::test
