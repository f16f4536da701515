// A job of many nodes that find their coordinator through etcd, in one thread: the real values of agent, coordinator
// and election, a model of etcd, and clocks of which any two run at rates that differ by a factor of two at most. A
// seed decides which node fails, when, and how long every message takes. What sockets and timers do is repeated here,
// as in agent/link/etcd_link.cpp, coordinator_client.cpp and coordinator_server.cpp.
//
// Excused from "one round at a time": the workers of an agent that is paused as a whole (SIGSTOP) while its lease ends,
// until it has killed them after it goes on. Nobody else can end them, and the others cannot know.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/round/supervisor.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/server/coordinator_liveness.h"
#include "rendezvous/coordination/wire/control_message.h"
#include "tests/simulation/etcd_model.h"
#include "tests/simulation/network.h"

namespace ddprun::test {

struct EtcdClusterOptions {
  int agents = 4;  // at the start
  int nodes_min = 1, nodes_max = 4;
  std::uint64_t seed = 0;
  double failure = 0.3;                  // chance that a worker fails in a round
  int period_ms = 240'000;               // of all faults, from the start; workers end well half a minute later
  double clock_error = 2;                // etcd's clock runs so much faster, or slower, than those of the machines
  std::optional<double> etcd_rate = {};  // exactly
  // Numbers of each fault.
  int kills = 0;        // of agents; another one is started soon
  double silent = 0.3;  // chance that a killed agent's host goes silent, too
  int pauses = 0;       // SIGSTOP of an agent, up to a minute
  int leaves = 0;       // SIGTERM
  int joins = 0;
  int strangers = 0;               // newcomers that reach etcd and no node, as long as there are faults
  int cuts = 0;                    // nodes cut from other nodes, up to 20 s
  int etcd_cuts = 0;               // nodes cut from etcd
  int etcd_cut_ms = 60'000;        // at most
  double cut_from_etcd_too = 0.2;  // the share of the others that are cut from it at the same time
  int both_cuts = 0;               // a node cut from all
  int divisions = 0;               // a node reaches etcd alone, and etcd is slow for the coordinator
  int outages = 0;                 // of etcd, up to a minute
  int slow_phases = 0;
  int leader_changes = 0;
  double coordinator_share = 0.5;  // of faults, that hit the coordinator's node
  bool loses_data = false;         // etcd, once
  bool all_die = false;            // all agents at once; others are started then
  double kill_at_end = 0;          // chance that the coordinator's node is killed when it has decided the job's end
  Duration last_call = std::chrono::seconds(5);
  unsigned stubborn_one_in = 8;  // workers do not end by SIGTERM
  EtcdBug bug = EtcdBug::none;
};

class EtcdCluster {
 public:
  explicit EtcdCluster(const EtcdClusterOptions& options);
  // Until no event is left, or for so long. Throws std::logic_error naming the violated invariant.
  void run(std::optional<Duration> until = {});
  // At the end of the job.
  void check_end();

  void kill_coordinator();
  int rounds() const { return static_cast<int>(started_.size()); }
  int takeovers() const { return takeovers_; }
  const EtcdModel& etcd() const { return etcd_; }
  const std::optional<Outcome>& end() const { return end_; }
  const std::string& transcript() const { return transcript_; }

 private:
  struct Leadership {
    Coordinator coordinator;
    CoordinatorLiveness liveness;
    int serial = 0;
    RecordId newest = {}, stored = {};
    Round outside = {};
    std::optional<Round> record = {};
    std::optional<Order> waits = {};
    int ledger_changes = 0;
    bool told_end = false;
    std::map<NodeId, Network::LinkId> peers = {};
    std::optional<TimePoint> tick_at = {};
  };
  struct Node {
    Node(NodeId own, std::uint64_t seed) : id(own), supervisor({}), election(own, seed) {}
    NodeId id;
    double rate = 1;  // of its clock
    Duration base = {};
    agent::Supervisor supervisor;
    EtcdElection election;
    NodeOffer offer;
    RecordId round = {};  // of its workers
    std::set<int> running = {};
    bool alive = true, finished = false, exited = false, left = false, host_down = false, in_last_round = false;
    TimePoint paused_until = {}, excused_until = TimePoint::min();  // by the simulation's clock
    std::deque<std::function<void()>> to_do = {}, due = {};         // messages and timers, while it is paused
    std::optional<Outcome> end = {}, finished_with = {};
    bool all_notified = false, let_go = false;  // let_go: the keys
    TimePoint leave_deadline = TimePoint::max(), lets_go_until = {};
    // Its connection to the coordinator.
    Network::LinkId link = 0;
    int attempt = 0, turn = 0, referrals = 0, look = 0;
    Duration pause = {};
    NodeId coordinator = 0, holder = 0, welcomed_by = 0;
    std::vector<NodeId> fallbacks = {};
    RecordId newest = {};
    bool welcome = false;
    TimePoint heard_at = {}, led_at = {}, lease_ends = {};
    std::optional<TimePoint> contact = {};
    std::uint64_t last_heartbeat = 0, answered = 0;
    std::map<std::uint64_t, TimePoint> heartbeats_sent = {};
    std::optional<Leadership> leadership = {};
    Elsewhere elsewhere = {};
    NodeId elsewhere_at = 0;
    std::optional<TimePoint> election_tick_at = {};
    bool etcd_is_slow = false;
    std::deque<agent::Event> events = {};
    bool handling = false;
  };

  void note(const std::string& line);
  void note(NodeId id, const std::string& line) { note("node" + std::to_string(id) + ": " + line); }
  Node& node(NodeId id) { return *nodes_[id - 1]; }
  bool is_present(NodeId id) { return node(id).alive && !node(id).finished; }
  bool listens(NodeId id) { return node(id).alive && !node(id).exited; }
  bool refuses(NodeId id);
  bool is_paused(NodeId id) { return net_.now() < node(id).paused_until; }
  std::vector<NodeId> present_nodes();
  TimePoint now(NodeId id);  // by its clock
  void after(NodeId id, Duration by_its_clock, const std::function<void()>& what);
  void at_time(NodeId id, TimePoint by_its_clock, const std::function<void()>& what);
  void on_node(NodeId id, const std::function<void()>& what);  // later, if it is paused; never, if it is dead

  // Faults.
  NodeId add_node();
  void schedule_faults();
  void schedule_fault(int times, void (EtcdCluster::*fault)(NodeId));
  TimePoint last_fault() const { return TimePoint() + std::chrono::milliseconds(options_.period_ms); }
  void trouble(Duration lasts);
  bool is_troubled() const;
  void kill(NodeId id);
  void die(NodeId id, bool silent);
  void pause(NodeId id);
  void leave_job(NodeId id);
  void cut_nodes(NodeId id);
  void cut_etcd(NodeId id);
  void cut_both(NodeId id);
  void divide(NodeId id);
  void all_die();

  // An agent and etcd.
  void elect(NodeId id, const EtcdEvent& event);
  void schedule_election(NodeId id);
  template <class Answer>
  void ask(NodeId id, EtcdRequest request, const std::function<void(const std::function<void(Answer)>&)>& once);
  template <class Result>
  void trip(NodeId id, const std::function<Result()>& at_etcd, const std::function<void(Result)>& then);
  void carry_out(NodeId id, const ReadKeys& action);
  void carry_out(NodeId id, const ClaimKey& action);
  void carry_out(NodeId id, const RenewLease& action);
  void carry_out(NodeId id, const StoreRecord& action);
  void carry_out(NodeId id, const ReleaseKey& action);
  void carry_out(NodeId id, const LeadJob& action);
  void carry_out(NodeId id, const RecordStored& action);
  void carry_out(NodeId id, const StopLeading& action);
  void carry_out(NodeId id, const FollowHolder& action);
  void carry_out(NodeId id, const LookForNodes& action);
  void carry_out(NodeId id, const LearnEnd& action);
  void carry_out(NodeId id, const WrongMark& action);
  void carry_out(NodeId id, const KeysAreGone& action);

  // An agent's connection to the coordinator.
  void connect_to(NodeId id, NodeId coordinator);
  void connect(NodeId id);
  void reach(NodeId id, NodeId at, int attempt);
  void hang_up(NodeId id, Network::LinkId link);
  void closed(NodeId id, Network::LinkId link);
  void disconnect(NodeId id);
  void try_again(NodeId id, bool gone);
  void on_welcome(NodeId id, const Welcome& welcome);
  void on_contact(NodeId id, std::uint64_t answered, Duration age);
  void watch_lease(NodeId id);
  void schedule_heartbeat(NodeId id, int attempt);
  void isolate(NodeId id);
  void on_elsewhere(NodeId id, const Elsewhere& referral, NodeId at);
  void to_coordinator(NodeId id, const FromAgent& message);
  void on_message(NodeId id, const ToAgent& message);
  void on_round(NodeId id, const RecordId& round, int group_rank);
  void on_job_end(NodeId id, const EndJob& message);

  // The coordinator's side.
  double rate_of_etcd(double error);
  void stop_leading(NodeId id);
  void step_down(NodeId id);  // by itself
  void on_hello(NodeId at, NodeId id, Network::LinkId link, const RecordId& record);
  void on_message(NodeId at, NodeId id, const FromAgent& message);
  void lose(NodeId at, NodeId id, const std::string& how);
  void probe(NodeId at, int serial, NodeId id);
  void probe_in_look(NodeId id, int look, NodeId other);
  void check_leases(NodeId at, int serial);
  Duration quorum_age(NodeId at);
  void coordinate(NodeId at, const Message& message);
  void report_record(NodeId at);
  void begin_round(NodeId at, const Order& order);
  void execute(NodeId at, const Order& order);
  void form(NodeId at, const Round& round);
  void to_round(NodeId at, const ToAgent& message);
  void to_node(NodeId at, NodeId id, const ToAgent& message);
  void send(NodeId at, NodeId id, Network::LinkId link, const ToAgent& message);
  void schedule_coordinator_tick(NodeId at);

  // The node's workers.
  void dispatch(NodeId id, const agent::Event& event);
  void execute(NodeId id, const agent::Action& action);
  void schedule_tick(NodeId id);
  void start(NodeId id, const Seat& seat);
  void end_worker(NodeId id, const RecordId& round, int local_rank, const ExitStatus& status);
  void finish(NodeId id, const Outcome& outcome);
  void leave_when_notified(NodeId id, TimePoint at_last);
  void let_keys_go(NodeId id, const LastAct& act, int tries);
  void exit_when_left(NodeId id, TimePoint at_last);
  bool is_excused(NodeId id);
  void check_start(NodeId id, const RecordId& round);

  EtcdClusterOptions options_;
  Network net_;
  EtcdModel etcd_;
  std::vector<std::unique_ptr<Node>> nodes_;  // node 1 first
  int sides_ = 0, serials_ = 0, takeovers_ = 0, calls_ = 0;
  TimePoint trouble_until_;  // of other kinds than etcd's
  std::set<RecordId> started_;
  TimePoint round_began_;  // the newest one
  std::map<RecordId, NodeId> failing_;
  bool lost_data_ = false, begins_anew_ = false;  // begins_anew_: who was in no round has asked an empty etcd
  bool keys_stay_ = false;                        // the last coordinator did not reach etcd when it left
  std::optional<Outcome> end_;                    // that was decided first
  std::optional<Verdict> last_end_;               // who comes later begins the job again
  std::string transcript_;
};

}  // namespace ddprun::test
