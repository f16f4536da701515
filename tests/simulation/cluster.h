// A job of many nodes in one thread: the real supervisors, elections, coordinators and stores, a clock that only the
// simulation moves, and a seed that decides who fails, when, and how long every message takes. What holds connections
// and leases is written down here once more, without sockets, as agent/coordination.cpp and
// rendezvous/coordinator_server.cpp have it.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/supervisor.h"
#include "rendezvous/control_message.h"
#include "rendezvous/coordinator.h"
#include "rendezvous/election.h"
#include "rendezvous/protocol.h"
#include "rendezvous/quorum_contact.h"
#include "rendezvous/store.h"
#include "tests/simulation/network.h"

namespace ddprun::test {

// Ways in which the code could be wrong.
enum class Break {
  none,
  no_fence,         // a lost node's workers are taken for dead at once
  no_lease,         // a node out of reach lets its workers live
  vote_twice,       // an agent forgets whom it has given its vote
  count_twice,      // a candidate counts every vote for two
  no_quorum,        // a coordinator believes itself in contact with a quorum, whoever is out of its reach
  no_confirmation,  // workers start as soon as their agent has its seat
  no_standing,      // nobody stands for election
  old_keys          // a node's store keeps the keys of the round before
};

struct ClusterOptions {
  int agents = 10;  // at the start
  int nodes_min = 10, nodes_max = 10;
  bool fixed_ranks = false;
  int workers_max = 8;  // per node, drawn from 1 up
  std::uint64_t seed = 0;
  double failure = 0.3;     // chance that a round sees a worker fail
  double deaf = 0.1;        // chance that a worker ignores SIGTERM
  double interrupt = 0.05;  // chance that somebody presses Ctrl-C at some time
  int max_restarts = 3;
  // So many of each. The first node is where the others look for the job.
  int kills = 0;             // SIGKILL to an agent
  int trouble_ms = 300'000;  // when these happen, from the start
  int cuts = 0;              // some nodes are out of the others' reach, for up to 20 s
  int leaves = 0;            // SIGTERM to a node
  int joins = 0;             // another node comes; the first place's, where that is dead
  int beheads = 0;           // of kills, cuts and leaves: those that choose the coordinator's node
  Break broken = Break::none;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  // Until nothing is left to happen. Throws std::logic_error naming the invariant that broke.
  void run();

  int rounds() const { return static_cast<int>(started_.size()); }
  int elections() const { return elections_; }
  const RestartCounts& charged() const { return charged_; }
  // Of those that were told the job's end: neither killed, nor refused, nor asked to leave, nor out of the reach of the
  // coordinator that decided it first.
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::string& transcript() const { return transcript_; }  // what happened, a line each

 private:
  struct Peer {  // of a coordinator
    Network::LinkId link = 0;
    TimePoint heard;
    std::map<std::uint64_t, TimePoint> answers = {};
  };
  struct Office {  // an agent that coordinates
    Coordinator coordinator;
    int serial;
    RecordId newest;
    QuorumContact contact;
    TimePoint contact_at = {}, contact_known_at = TimePoint() - std::chrono::hours(1);
    std::map<NodeId, Peer> peers = {};
    std::vector<NodeId> round = {};
    std::optional<TimePoint> tick_at = {};  // planned
    bool over = false;
  };
  struct RoundStore {
    int serial = 0;
    RecordId round = {};
    Store keys = {};
    std::map<Network::LinkId, NodeId> clients = {};
  };
  struct Visit {  // of a node's workers at their round's store
    int serial = 0;
    NodeId at = 0;
    RecordId round = {};
    Seat seat = {};
    Network::LinkId link = 0;  // 0: the store is not found yet
    int store = 0;             // its serial
    bool met = false;          // all have come; they train
  };
  struct Node {
    Node(NodeId own, std::uint64_t seed) : id(own), supervisor({}), election(own, seed) {}
    NodeId id;
    Supervisor supervisor;
    Election election;
    NodeOffer offer;
    RecordId round;
    std::set<int> running, deaf;                          // local ranks
    bool alive = true, finished = false, exited = false;  // finished: it is there for the others only
    bool left = false, seated = false, told = false, counts = false;
    int signal = 0;  // somebody wants it to end
    // Its way to the coordinator.
    Network::LinkId link = 0;
    int attempt = 0;                    // counts them: what is on its way belongs to one
    int turn = 0;                       // of the places to look
    std::optional<NodeId> coordinator;  // who is, or was last
    std::optional<Round> kept;
    RecordId newest;
    bool welcome = false;
    TimePoint heard_at;
    std::optional<TimePoint> contact, alone_since;
    std::uint64_t beats = 0, answered = 0;
    std::map<std::uint64_t, TimePoint> beats_out;
    std::optional<TimePoint> election_tick_at;  // planned
    std::optional<Lead> calling;
    std::optional<Office> office;
    Elsewhere elsewhere;  // what it tells those who look for the coordinator
    std::optional<NodeId> elsewhere_at;
    std::optional<RoundStore> store;  // of the newest round in which it was the first node
    std::optional<Visit> visit;
    std::deque<Event> events;  // those that come up while an action is carried out wait for their turn
    bool handling = false;
  };

  void note(const std::string& line);
  void note(NodeId id, const std::string& line) { note("node" + std::to_string(id) + ": " + line); }
  Node& node(NodeId id) { return *nodes_[id - 1]; }
  bool here(NodeId id) { return node(id).alive && !node(id).finished; }
  bool listens(NodeId id) { return node(id).alive && !node(id).exited; }
  std::vector<NodeId> living();
  std::optional<NodeId> leader();
  std::optional<NodeId> first_seated(NodeId but = 0);  // of those that are here

  NodeId add_node(Duration when);
  void plan_troubles();
  void some_time(void (Cluster::*trouble)(NodeId), bool behead);
  void kill_agent(NodeId id);
  void vanish(NodeId id);
  void cut(NodeId id);
  void leave(NodeId id);
  void join();
  void signal(NodeId id, int signal);

  // Progress.
  void disturbed();
  bool stays_coordinator(NodeId id);
  bool quorum_in_reach();
  bool enough_are_there();
  void hold_progress(NodeId id, const Outcome& outcome);

  // An agent's way to the coordinator.
  std::vector<NodeId> places(NodeId id);
  void connect(NodeId id);
  void reach(NodeId id, NodeId at, int attempt);
  void hang_up(NodeId id);
  void try_again(NodeId id, Duration pause, bool gone);
  void go_to(NodeId id, NodeId coordinator);
  void welcomed(NodeId id, const Welcome& welcome);
  void heard_of_quorum(NodeId id, std::uint64_t answered, Duration age);
  void beat(NodeId id, int attempt);
  void watch_lease(NodeId id);
  void told_elsewhere(NodeId id, const Elsewhere& told, std::optional<NodeId> at);
  void to_coordinator(NodeId id, const FromAgent& message);
  void tell_of_signal(NodeId id);
  void hear(NodeId id, const ToAgent& message);

  // Elections.
  void elect(NodeId id, const ElectionEvent& event, NodeId from = 0);
  void carry_out(NodeId id, const ElectionAction& action, NodeId from);
  void plan_election(NodeId id);
  void take_the_lead(NodeId id, const Lead& won);
  void call(NodeId id, int term, TimePoint until);

  // The coordinator's side.
  void lead(NodeId id, std::optional<Succession> succession, TimePoint asked_at);
  void stop_leading(NodeId id, const Elsewhere& told, std::optional<NodeId> at);
  void hello(NodeId at, NodeId id, Network::LinkId link, const RecordId& record);
  void take(NodeId at, NodeId id, const FromAgent& message);
  void lose(NodeId at, NodeId id, const std::string& how, bool closed);
  void probe(NodeId at, int serial, NodeId id);
  void look_around(NodeId at, int serial);
  Duration quorum_age(Office& office, NodeId self);
  void coordinate(NodeId at, const Message& message);
  void obey(NodeId at, const Order& order);
  void form(NodeId at, const Round& round);
  void to_node(NodeId at, NodeId id, const ToAgent& message);
  void plan_coordinator_tick(NodeId at);

  // The node's workers.
  void happen(NodeId id, const Event& event);
  void carry_out(NodeId id, const Action& action);
  void signal_workers(NodeId id, int signal);
  void start(NodeId id, const Seat& seat);
  void train(NodeId id);

  // Their store.
  void open_store(NodeId id, const RecordId& round);
  void meet(NodeId id, const Seat& seat);
  bool visits(NodeId id, int serial);
  void look_for_store(NodeId id, int serial);
  void ask_store(NodeId id, const std::vector<Request>& requests);
  void hear_store(NodeId id, const Reply& reply);
  void store_lost(NodeId id, const std::string& why);
  void leave_store(NodeId id);
  void close_store(NodeId at, NodeId client);
  void break_visits();
  void count_running(const RecordId& round, int change);
  void end_worker(NodeId id, const RecordId& round, int local_rank, const ExitStatus& status);
  void plan_tick(NodeId id);
  void finish(NodeId id, const Outcome& outcome);
  void exit_when_left(NodeId id, TimePoint at_last);
  void hold_invariants(NodeId id, const RecordId& starting);

  ClusterOptions options_;
  Network net_;
  std::vector<std::unique_ptr<Node>> nodes_;  // node 1 first
  std::set<NodeId> seated_;                   // some may be here no more
  std::map<RecordId, int> running_;           // workers, by their round
  NodeId first_place_ = 1;                    // who is where the others look first
  int cuts_ = 0;                              // in force
  std::optional<TimePoint> calm_since_;       // nobody was killed, cut off or asked to end since
  bool quorum_at_calm_ = false;               // by then, of those who can be waited for
  std::optional<TimePoint> ended_at_;
  int ended_by_ = 0;  // the first coordinator that decided so; 0: none yet
  int sides_ = 0, serials_ = 0, elections_ = 0, stores_ = 0, visits_ = 0;
  std::set<int> terms_;                                       // in which somebody was elected
  std::map<std::pair<int, NodeId>, std::set<NodeId>> votes_;  // by term and candidate
  std::map<RecordId, std::set<NodeId>> to_confirm_;
  std::set<RecordId> started_;
  int last_started_ = 0;  // number
  RestartCounts charged_;
  std::map<RecordId, NodeId> failing_;  // the node whose worker is to fail
  std::vector<Outcome> outcomes_;
  std::string transcript_;
};

}  // namespace ddprun::test
