// An agent of a simulated job, and its connection to the coordinator, as in agent/link/job_link.cpp.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "rendezvous/coordination/election/first_place.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/cluster_coordinator.h"
#include "tests/simulation/cluster_election.h"
#include "tests/simulation/cluster_workers.h"
#include "tests/simulation/simulated_node.h"

namespace ddprun::test {

constexpr Duration kPause = std::chrono::milliseconds(200);  // before it connects again

class ClusterAgent : public SimulatedNode {
 public:
  ClusterAgent(NodeId own, std::size_t its_slot, Cluster& its_cluster);

  void listen_at_place();
  // What happens to it.
  void be_killed();
  void close_links();
  void be_asked_to_leave();
  void be_signalled(int number);
  void stand(Duration lasts);  // what comes for its loop waits; its link, its workers and its coordinator go on
  bool stands() const { return net.now() < stands_until_; }
  bool is_stuck() const { return stood() >= kLoopLimit; }
  // The job cannot continue here: it ends its workers, then a successor starts afresh.
  void abandon_job();
  bool has_abandoned() const { return abandoned_; }
  // So long it looks for a coordinator.
  Duration patience() const;
  bool stays_for(Duration least) const;

  void connect();
  void connect_to(NodeId id);
  void try_again(Duration pause, bool gone, const RecordId& known = {});
  void on_welcome(NodeId at, const Welcome& welcome);
  void on_elsewhere(const Elsewhere& referral, std::optional<NodeId> at, bool replaced);
  void on_message(const ToAgent& message);
  // The job has ended, and the election cannot be won: where nobody else may live, it need not stay.
  void give_up_at_the_end();
  void on_link_closed(NodeId by);

  void on_loop(const std::function<void()>& what) override;
  void dispatch(const agent::Event& event) override;
  void to_coordinator(const FromAgent& message) override;
  // By the connection of which the loop knows.
  void from_loop(const FromAgent& message) override;

  Cluster& cluster;
  const std::size_t slot;
  ClusterElection election;
  ClusterPort port;
  ClusterWorkers workers;
  StoreSessions store;
  int job = 0;            // of which it is a part
  int signal = 0;         // that asks it to end
  bool at_place = false;  // it listens at its slot's place
  NodeId instead_of = 0;
  FirstPlace first_place;
  std::optional<NodeId> coordinator;  // the current or last one

 private:
  void vanish();
  void go_on();
  void rejoin_as_new_node();
  void lead_if_first();
  std::vector<NodeId> places() const;
  void reach(NodeId at, int its_attempt, bool by_place);
  void without_coordinator(TimePoint when);
  void take_seat(const TakeSeat& message);
  void take_contact(TimePoint then) override;
  void on_lease_over() override;
  void isolate();
  Duration stood() const override { return stands() ? net.now() - stands_since_ : Duration::zero(); }
  void on_stuck(int its_attempt) override;
  void send_signal() override;
  void start(const Seat& seat) override { workers.start(seat); }
  void signal_workers(int number) override { workers.signal(number); }
  void sweep(int round) override { workers.sweep(round); }
  void disconnect() override;
  void on_finish(const Outcome& outcome) override { cluster.checks.on_finish(*this, outcome); }
  bool may_leave() const override;
  void leave() override;
  bool may_exit() const override { return !port.leadership || port.leadership->all_left(); }
  void exit() override { vanish(); }

  std::optional<TimePoint> disconnected_since_;
  std::optional<Round> kept_;
  bool seated_ = false, abandoned_ = false;
  bool rejoined_ = false;  // it replaces a node that abandoned the job; it gives up soon if no other does so
  TimePoint stands_since_, stands_until_;    // its loop
  std::deque<std::function<void()>> to_do_;  // by its loop, when it goes on
  int known_ = 0, isolated_ = 0;             // attempts: which connection its loop knows, the last that was isolated
  bool spoken_ = false;                      // the loop has sent something by this connection, or no lease was running
  TimePoint unspoken_contact_;
};

}  // namespace ddprun::test
