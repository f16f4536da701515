// A job of many nodes in one thread: the real supervisors, elections, coordinators and stores, a clock that only the
// simulation moves, and a seed that decides which node fails, when, and how long every message takes. The handling of
// connections and leases is repeated here without sockets, as in agent/link/job_link.cpp and
// rendezvous/coordination/server/coordinator_server.cpp.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "agent/round/supervisor.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/election/election.h"
#include "rendezvous/coordination/election/first_place.h"
#include "rendezvous/coordination/election/quorum_contact.h"
#include "rendezvous/coordination/wire/control_message.h"
#include "rendezvous/store/protocol.h"
#include "rendezvous/store/store.h"
#include "tests/simulation/network.h"

namespace ddprun::test {

using namespace rendezvous;

// Bugs that a test can inject.
enum class Bug {
  none,
  no_fence,         // a lost node's workers are considered dead at once
  no_lease,         // an unreachable node does not end its workers
  vote_twice,       // an agent forgets its vote
  count_twice,      // a candidate counts every vote twice
  no_quorum,        // a coordinator always believes it is in contact with a quorum
  no_confirmation,  // workers start as soon as their agent has its seat
  no_candidates,    // no node stands for election
  standing,         // a link does not end the workers of an agent whose loop stands
  unspoken,         // a connection counts as contact before the agent's loop has said which workers it has
  old_orders,       // a loop that goes on carries out the orders of a connection that was out of reach for a lease
  old_keys,         // a node's store keeps the keys of the previous round
  no_waiting,       // a coordinator without a round stops for good if a node knows of one
  silent_end        // a node that was told the job's end leaves without telling the others
};

struct ClusterOptions {
  int agents = 10;  // at the start
  int nodes_min = 10, nodes_max = 10;
  bool fixed_ranks = false;
  int workers_max = 8;  // per node, drawn from 1 up
  std::uint64_t seed = 0;
  double failure = 0.3;         // chance that a worker fails in a round
  double hang = 0;              // chance that a worker hangs in a round, and all others wait for it
  double ignore_sigterm = 0.1;  // chance that a worker ignores SIGTERM
  double slow_sweep = 0.1;      // chance that workers' leftovers do not end at once
  double slow_starts = 0;       // chance that a node's workers start one after the other, within a second each
  double interrupt = 0.05;      // chance of a Ctrl-C at some time
  int max_restarts = 3;
  int exclude_after = 3;  // failures of a node's workers, for a few minutes
  // Numbers of each fault. The first node is at the endpoint.
  int kills = 0;                  // SIGKILL to an agent
  int fault_period_ms = 300'000;  // period of the faults, from the start
  int cuts = 0;                   // some nodes are unreachable for up to 20 s
  int leaves = 0;                 // SIGTERM to a node
  int stalls = 0;                 // an agent's loop stands for up to a minute, and its link answers
  int joins = 0;                  // a new node joins; in a dead one's place, first of all at the job's first place
  int acts = 0;                   // what users do: restart, drain, admit, resize, add and remove workers
  int places = 1;                 // number of endpoints, those of the first nodes
  bool returns = false;   // killed nodes, and those that end to be restarted, come back without state in their place
  double silent = 0;      // chance that a killed node's host goes silent, too, until it is back
  double slow_names = 0;  // chance that the look-up of a place takes up to 8 s
  double busy_ports = 0;  // chance that a place's port is busy for up to a minute when its node starts
  int coordinator_faults = 0;  // number of kills, cuts and leaves that hit the coordinator's node
  double kill_at_end = 0;      // chance that the coordinator's node is killed after deciding the job's end
  Bug bug = Bug::none;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  // Runs until no event is left. Throws std::logic_error naming the violated invariant.
  void run();

  int rounds() const { return static_cast<int>(started_.size()); }
  int elections() const { return elections_; }
  int hangs_found() const { return hangs_found_; }
  int rounds_from_snapshots() const { return rounds_from_snapshots_; }
  int acts_done() const { return acts_done_; }
  const RestartCounts& charged() const { return charged_; }
  // Of nodes told by the coordinator that decided the job's end, neither killed nor asked to leave.
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::string& transcript() const { return transcript_; }  // a line per event

 private:
  struct Peer {  // a coordinator's peer
    Network::LinkId link = 0;
    TimePoint heard;
    std::map<std::uint64_t, TimePoint> answers = {};
  };
  struct JobRound {  // each job counts its own terms and rounds
    int job = 0;
    RecordId id = {};
    friend auto operator<=>(const JobRound&, const JobRound&) = default;
  };
  struct Leadership {  // an agent that coordinates
    Coordinator coordinator;
    int serial;
    int job;
    RecordId newest;
    QuorumContact contact;
    TimePoint contact_at = {}, contact_known_at = TimePoint() - std::chrono::hours(1);
    std::map<NodeId, Peer> peers = {};
    std::vector<NodeId> round = {};
    std::optional<Round> record = {};
    std::optional<TimePoint> tick_at = {};  // planned
    std::optional<TimePoint> account_begins = {};
    std::map<NodeId, int> workers_by_users = {};
  };
  struct RoundStore {
    RoundStore();
    int serial = 0;
    JobRound round = {};
    Store keys = {};
    std::map<Network::LinkId, NodeId> clients = {};
  };
  struct StoreSession {  // of a node's workers at their round's store
    int serial = 0;
    NodeId at = 0;
    JobRound round = {};
    Seat seat = {};
    Network::LinkId link = 0;  // 0: not connected to the store yet
    int store = 0;             // its serial
    bool all_arrived = false;  // they train
    TimePoint trains_since = {};
  };
  struct Node {
    Node(NodeId own, std::size_t its_slot, const ClusterOptions& options)
        : id(own),
          slot(its_slot),
          supervisor({}),
          election(own, options.seed),
          first_place(static_cast<std::size_t>(options.places)) {}
    NodeId id;
    std::size_t slot;  // nodes started one after another in a place share it; one is alive
    agent::Supervisor supervisor;
    Election election;
    FirstPlace first_place;
    NodeOffer offer;
    JobRound round;
    std::set<int> running, ignoring_sigterm;              // local ranks
    bool starting = false;                                // some of the round's are to be started yet
    int fences = 0;                                       // while there are any, no worker is started
    bool alive = true, finished = false, exited = false;  // finished: it stays only for the others
    bool left = false, seated = false;
    bool in_last_round = false;            // when the job's end was decided
    std::optional<Outcome> end;            // the job's, for all
    std::optional<Outcome> finished_with;  // its own
    bool all_notified = false;
    TimePoint leave_deadline = TimePoint::max();  // if there is no coordinator after the end
    bool at_place = false;                        // it listens at its slot's place
    bool host_down = false;                       // its host does not answer
    bool abandoned = false;                       // it ends its workers, then a successor starts afresh
    NodeId instead_of = 0;
    bool rejoined = false;  // it replaces a node that abandoned the job; it gives up soon if no other does so
    int signal = 0;         // signal that asks it to end
    // Its connection to the coordinator.
    Network::LinkId link = 0;
    int attempt = 0;                    // counts attempts: messages in flight belong to one
    int turn = 0;                       // index of the endpoint to try
    std::optional<NodeId> coordinator;  // the current or last one
    std::optional<Round> kept;
    int job = 0;  // of which it is a part
    RecordId newest;
    bool welcome = false;
    TimePoint heard_at, led_at;
    std::optional<TimePoint> contact, disconnected_since;
    std::uint64_t last_heartbeat = 0, answered = 0;
    std::map<std::uint64_t, TimePoint> heartbeats_sent;
    std::optional<TimePoint> election_tick_at;  // planned
    std::optional<Lead> announcing, led;        // led: the last term it was elected for
    std::optional<Leadership> leadership;
    Elsewhere elsewhere;  // its answer to nodes that look for the coordinator
    std::optional<NodeId> elsewhere_at;
    std::optional<RoundStore> store;  // of the newest round in which it was the first node
    std::optional<StoreSession> store_session;
    TimePoint stands_since, stands_until;     // its loop
    std::deque<std::function<void()>> to_do;  // by its loop, when it goes on
    int known = 0, isolated = 0;              // attempts: which connection its loop knows, the last that was isolated
    bool spoken = false;                      // the loop has sent something by this connection, or no lease was running
    TimePoint unspoken_contact;
    std::deque<agent::Event> events;  // queued while an action is carried out
    bool handling = false;
  };

  void note(const std::string& line);
  void note(NodeId id, const std::string& line) { note("node" + std::to_string(id) + ": " + line); }
  Node& node(NodeId id) { return *nodes_[id - 1]; }
  bool is_present(NodeId id) { return node(id).alive && !node(id).finished; }
  bool listens(NodeId id) { return node(id).alive && !node(id).exited; }
  std::vector<NodeId> live_nodes();
  std::optional<NodeId> leader();
  std::optional<NodeId> first_seated(NodeId except = 0);  // among the present ones

  NodeId add_node(Duration when, std::size_t slot);
  void listen_at_place(NodeId id);
  void restart_slot(std::size_t slot);
  void abandon_job(NodeId id);
  void rejoin_as_new_node(NodeId id);
  bool all_slots_alive();
  void schedule_faults();
  void schedule_fault(void (Cluster::*fault)(NodeId), bool hits_coordinator);
  void kill_agent(NodeId id);
  void vanish(NodeId id);
  void close_links(NodeId id);
  void cut(NodeId id);
  void leave(NodeId id);
  void stand(NodeId id);
  bool stands(NodeId id) { return net_.now() < node(id).stands_until; }
  Duration stood(NodeId id) { return stands(id) ? net_.now() - node(id).stands_since : Duration::zero(); }
  bool is_stuck(NodeId id) { return stood(id) >= kLoopLimit; }
  void on_loop(NodeId id, std::function<void()> what);
  void go_on(NodeId id);
  void join();
  void act();
  void note_act(NodeId at, const JobReply& reply);
  void signal(NodeId id, int signal);

  // Progress.
  void on_disturbance();
  bool stays_coordinator(NodeId id);
  bool quorum_in_reach();
  bool has_enough_nodes();
  void check_progress(NodeId id, const Outcome& outcome);

  // An agent's connection to the coordinator.
  std::vector<NodeId> places(NodeId id);
  std::size_t count_places() const { return std::min(slots_.size(), static_cast<std::size_t>(options_.places)); }
  NodeId who_answers(NodeId at);
  bool answers(NodeId at);
  void connect(NodeId id);
  void reach(NodeId id, NodeId at, int attempt, bool by_place);
  void disconnect(NodeId id);
  void try_again(NodeId id, Duration pause, bool gone, const RecordId& known = {});
  void lead_if_first(NodeId id);
  void connect_to(NodeId id, NodeId coordinator);
  void on_welcome(NodeId id, const Welcome& welcome);
  void on_quorum_contact(NodeId id, std::uint64_t answered, Duration age);
  void schedule_heartbeat(NodeId id, int attempt);
  void watch_lease(NodeId id);
  void on_elsewhere(NodeId id, const Elsewhere& referral, std::optional<NodeId> at, bool replaced);
  void isolate(NodeId id);
  void to_coordinator(NodeId id, const FromAgent& message);
  void from_loop(NodeId id, const FromAgent& message);
  void without_coordinator(NodeId id, TimePoint when);
  void send_signal(NodeId id);
  void on_message(NodeId id, const ToAgent& message);

  // Elections.
  void elect(NodeId id, const ElectionEvent& event, NodeId from = 0);
  void execute(NodeId id, const ElectionAction& action, NodeId from);
  void schedule_election(NodeId id);
  void on_elected(NodeId id, const Lead& won);
  void announce(NodeId id, int term, TimePoint until);

  // The coordinator's side.
  void lead(NodeId id, std::optional<Succession> succession, TimePoint requested_at);
  void ask_for_vote(NodeId id, NodeId voter, const std::shared_ptr<const VoteRequest>& request);
  void stop_leading(NodeId id, const Elsewhere& referral, std::optional<NodeId> at);
  void on_hello(NodeId at, NodeId id, Network::LinkId link, const RecordId& record);
  void answer_elsewhere(NodeId at, NodeId id, Network::LinkId link);
  void on_message(NodeId at, NodeId id, const FromAgent& message);
  void lose(NodeId at, NodeId id, const std::string& how, bool closed);
  void probe(NodeId at, int serial, NodeId id);
  void check_leases(NodeId at, int serial);
  Duration quorum_age(Leadership& leadership, NodeId self);
  void coordinate(NodeId at, const Message& message);
  void tell_spent(Leadership& leadership, const Message& message);
  void check_account(Leadership& leadership);
  void execute(NodeId at, const Order& order);
  void form(NodeId at, const Round& round);
  void send_record_to_standbys(NodeId at);
  void send_record_to_spare(NodeId at, NodeId id);
  void to_node(NodeId at, NodeId id, const ToAgent& message);
  void schedule_coordinator_tick(NodeId at);

  // The node's workers.
  void dispatch(NodeId id, const agent::Event& event);
  void execute(NodeId id, const agent::Action& action);
  void signal_workers(NodeId id, int signal);
  void start(NodeId id, const Seat& seat);
  void start_from(NodeId id, const Seat& seat, const JobRound& round, int rank, bool slowly);
  void check_snapshots(const Round& round) const;
  void keep_snapshots(NodeId id, const Seat& seat);
  void hang(NodeId id);
  void send_standings(NodeId id);
  void blame(NodeId id, const BlameWorker& blamed);
  void train(NodeId id);

  // Their store.
  void open_store(NodeId id, const JobRound& round);
  void open_store_session(NodeId id, const Seat& seat);
  bool has_session(NodeId id, int serial);
  void connect_to_store(NodeId id, int serial);
  void send_to_store(NodeId id, const std::vector<Request>& requests);
  void on_store_reply(NodeId id, const Reply& reply);
  void store_lost(NodeId id, const std::string& why);
  void close_store_session(NodeId id);
  void close_store(NodeId at, NodeId client);
  void break_store_sessions();
  void count_running(const JobRound& round, int change);
  void end_worker(NodeId id, const JobRound& round, int local_rank, const ExitStatus& status);
  void sweep(NodeId id, int round);
  void schedule_tick(NodeId id);
  void finish(NodeId id, const Outcome& outcome);
  bool may_leave(NodeId id);
  void set_leave_deadline(NodeId id);
  void leave_when_notified(NodeId id, TimePoint at_last);
  void check_same_outcome();
  void exit_when_left(NodeId id, TimePoint at_last);
  void check_invariants(NodeId id, const JobRound& starting);

  ClusterOptions options_;
  Network net_;
  std::vector<std::unique_ptr<Node>> nodes_;  // node 1 first
  std::set<NodeId> seated_;                   // some may have left
  std::vector<NodeId> slots_;                 // the last node started there
  std::map<JobRound, int> running_;           // number of workers by round
  int cuts_ = 0;                              // cuts in force
  std::optional<TimePoint> calm_since_;       // no kill, cut or request to end since
  bool quorum_at_calm_ = false;               // at that time, among reachable nodes
  std::optional<TimePoint> all_alive_since_;  // calm, with a live node in every slot
  std::optional<TimePoint> ended_at_;
  int ended_by_ = 0;                 // the first coordinator that decided the end; 0: none yet
  std::optional<Outcome> end_;       // its decision
  std::set<NodeId> notified_first_;  // told by it
  bool cut_at_end_ = false;          // some nodes were unreachable then, or since
  int sides_ = 0, serials_ = 0, elections_ = 0, stores_ = 0, sessions_ = 0;
  int jobs_ = 0, starts_ = 0;                                       // starts: restarts of nodes
  std::set<std::pair<int, int>> terms_;                             // jobs and terms with an elected node
  std::map<std::tuple<int, int, NodeId>, std::set<NodeId>> votes_;  // by job, term and candidate
  std::map<JobRound, std::set<NodeId>> to_confirm_;
  std::map<JobRound, std::vector<RoundNode>> formed_;
  int rounds_from_snapshots_ = 0;
  std::vector<Act> acts_;  // by their serial
  int acts_done_ = 0;
  std::set<std::pair<int, int>> sizes_;  // of rounds: what users have asked for, and what the job began with
  std::set<JobRound> started_;
  std::map<int, int> last_started_;  // round number by job
  std::map<int, TimePoint> jobs_began_;
  std::mt19937_64 measured_{options_.seed};  // for what agents tell of their rounds: it changes nothing else
  RestartCounts charged_;
  std::map<JobRound, NodeId> failing_;  // the node whose worker will fail
  std::map<JobRound, NodeId> hanging_;  // the node whose first worker hangs: no worker gets on
  int hangs_found_ = 0;
  std::vector<Outcome> outcomes_;
  std::string transcript_;
};

}  // namespace ddprun::test
