// A job of many nodes in one thread: the real supervisors, elections, coordinators and stores, a clock that only the
// simulation moves, and a seed that decides which node fails, when, and how long every message takes. The handling of
// connections and leases is repeated here without sockets, as in agent/coordination.cpp and
// rendezvous/coordination/coordinator_server.cpp.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "agent/supervisor.h"
#include "rendezvous/coordination/control_message.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/election.h"
#include "rendezvous/coordination/first_place.h"
#include "rendezvous/coordination/quorum_contact.h"
#include "rendezvous/store/protocol.h"
#include "rendezvous/store/store.h"
#include "tests/simulation/network.h"

namespace ddprun::test {

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
  double interrupt = 0.05;      // chance of a Ctrl-C at some time
  int max_restarts = 3;
  int exclude_after = 3;  // failures of a node's workers, for a few minutes
  // Numbers of each fault. The first node is at the endpoint.
  int kills = 0;                  // SIGKILL to an agent
  int fault_period_ms = 300'000;  // period of the faults, from the start
  int cuts = 0;                   // some nodes are unreachable for up to 20 s
  int leaves = 0;                 // SIGTERM to a node
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
  const rendezvous::RestartCounts& charged() const { return charged_; }
  // Of nodes told by the coordinator that decided the job's end, neither killed nor asked to leave.
  const std::vector<rendezvous::Outcome>& outcomes() const { return outcomes_; }
  const std::string& transcript() const { return transcript_; }  // a line per event

 private:
  struct Peer {  // a coordinator's peer
    Network::LinkId link = 0;
    TimePoint heard;
    std::map<std::uint64_t, TimePoint> answers = {};
  };
  struct JobRound {  // each job counts its own terms and rounds
    int job = 0;
    rendezvous::RecordId id = {};
    friend auto operator<=>(const JobRound&, const JobRound&) = default;
  };
  struct Leadership {  // an agent that coordinates
    rendezvous::Coordinator coordinator;
    int serial;
    int job;
    rendezvous::RecordId newest;
    rendezvous::QuorumContact contact;
    TimePoint contact_at = {}, contact_known_at = TimePoint() - std::chrono::hours(1);
    std::map<rendezvous::NodeId, Peer> peers = {};
    std::vector<rendezvous::NodeId> round = {};
    std::optional<rendezvous::Round> record = {};
    std::optional<TimePoint> tick_at = {};  // planned
    std::optional<TimePoint> account_begins = {};
    std::map<rendezvous::NodeId, int> workers_by_users = {};
  };
  struct RoundStore {
    RoundStore();
    int serial = 0;
    JobRound round = {};
    rendezvous::Store keys = {};
    std::map<Network::LinkId, rendezvous::NodeId> clients = {};
  };
  struct StoreSession {  // of a node's workers at their round's store
    int serial = 0;
    rendezvous::NodeId at = 0;
    JobRound round = {};
    rendezvous::Seat seat = {};
    Network::LinkId link = 0;  // 0: not connected to the store yet
    int store = 0;             // its serial
    bool all_arrived = false;  // they train
    TimePoint trains_since = {};
  };
  struct Node {
    Node(rendezvous::NodeId own, std::size_t its_slot, const ClusterOptions& options)
        : id(own),
          slot(its_slot),
          supervisor({}),
          election(own, options.seed),
          first_place(static_cast<std::size_t>(options.places)) {}
    rendezvous::NodeId id;
    std::size_t slot;  // nodes started one after another in a place share it; one is alive
    agent::Supervisor supervisor;
    rendezvous::Election election;
    rendezvous::FirstPlace first_place;
    rendezvous::NodeOffer offer;
    JobRound round;
    std::set<int> running, ignoring_sigterm;              // local ranks
    bool alive = true, finished = false, exited = false;  // finished: it stays only for the others
    bool left = false, seated = false;
    bool in_last_round = false;                        // when the job's end was decided
    std::optional<rendezvous::Outcome> end;            // the job's, for all
    std::optional<rendezvous::Outcome> finished_with;  // its own
    bool all_notified = false;
    TimePoint leave_deadline = TimePoint::max();  // if there is no coordinator after the end
    bool at_place = false;                        // it listens at its slot's place
    bool host_down = false;                       // its host does not answer
    bool abandoned = false;                       // it ends its workers, then a successor starts afresh
    rendezvous::NodeId instead_of = 0;
    bool rejoined = false;  // it replaces a node that abandoned the job; it gives up soon if no other does so
    int signal = 0;         // signal that asks it to end
    // Its connection to the coordinator.
    Network::LinkId link = 0;
    int attempt = 0;                                // counts attempts: messages in flight belong to one
    int turn = 0;                                   // index of the endpoint to try
    std::optional<rendezvous::NodeId> coordinator;  // the current or last one
    std::optional<rendezvous::Round> kept;
    int job = 0;  // of which it is a part
    rendezvous::RecordId newest;
    bool welcome = false;
    TimePoint heard_at;
    std::optional<TimePoint> contact, disconnected_since;
    std::uint64_t last_heartbeat = 0, answered = 0;
    std::map<std::uint64_t, TimePoint> heartbeats_sent;
    std::optional<TimePoint> election_tick_at;        // planned
    std::optional<rendezvous::Lead> announcing, led;  // led: the last term it was elected for
    std::optional<Leadership> leadership;
    rendezvous::Elsewhere elsewhere;  // its answer to nodes that look for the coordinator
    std::optional<rendezvous::NodeId> elsewhere_at;
    std::optional<RoundStore> store;  // of the newest round in which it was the first node
    std::optional<StoreSession> store_session;
    std::deque<agent::Event> events;  // queued while an action is carried out
    bool handling = false;
  };

  void note(const std::string& line);
  void note(rendezvous::NodeId id, const std::string& line) { note("node" + std::to_string(id) + ": " + line); }
  Node& node(rendezvous::NodeId id) { return *nodes_[id - 1]; }
  bool is_present(rendezvous::NodeId id) { return node(id).alive && !node(id).finished; }
  bool listens(rendezvous::NodeId id) { return node(id).alive && !node(id).exited; }
  std::vector<rendezvous::NodeId> live_nodes();
  std::optional<rendezvous::NodeId> leader();
  std::optional<rendezvous::NodeId> first_seated(rendezvous::NodeId except = 0);  // among the present ones

  rendezvous::NodeId add_node(Duration when, std::size_t slot);
  void listen_at_place(rendezvous::NodeId id);
  void restart_slot(std::size_t slot);
  void abandon_job(rendezvous::NodeId id);
  void rejoin_as_new_node(rendezvous::NodeId id);
  bool all_slots_alive();
  void schedule_faults();
  void schedule_fault(void (Cluster::*fault)(rendezvous::NodeId), bool hits_coordinator);
  void kill_agent(rendezvous::NodeId id);
  void vanish(rendezvous::NodeId id);
  void close_links(rendezvous::NodeId id);
  void cut(rendezvous::NodeId id);
  void leave(rendezvous::NodeId id);
  void join();
  void act();
  void note_act(rendezvous::NodeId at, const rendezvous::ActDone& done);
  void signal(rendezvous::NodeId id, int signal);

  // Progress.
  void on_disturbance();
  bool stays_coordinator(rendezvous::NodeId id);
  bool quorum_in_reach();
  bool has_enough_nodes();
  void check_progress(rendezvous::NodeId id, const rendezvous::Outcome& outcome);

  // An agent's connection to the coordinator.
  std::vector<rendezvous::NodeId> places(rendezvous::NodeId id);
  std::size_t count_places() const { return std::min(slots_.size(), static_cast<std::size_t>(options_.places)); }
  rendezvous::NodeId who_answers(rendezvous::NodeId at);
  bool answers(rendezvous::NodeId at);
  void connect(rendezvous::NodeId id);
  void reach(rendezvous::NodeId id, rendezvous::NodeId at, int attempt, bool by_place);
  void disconnect(rendezvous::NodeId id);
  void try_again(rendezvous::NodeId id, Duration pause, bool gone, const rendezvous::RecordId& known = {});
  void lead_if_first(rendezvous::NodeId id);
  void connect_to(rendezvous::NodeId id, rendezvous::NodeId coordinator);
  void on_welcome(rendezvous::NodeId id, const rendezvous::Welcome& welcome);
  void on_quorum_contact(rendezvous::NodeId id, std::uint64_t answered, Duration age);
  void schedule_heartbeat(rendezvous::NodeId id, int attempt);
  void watch_lease(rendezvous::NodeId id);
  void on_elsewhere(rendezvous::NodeId id, const rendezvous::Elsewhere& referral, std::optional<rendezvous::NodeId> at,
                    bool replaced);
  void to_coordinator(rendezvous::NodeId id, const rendezvous::FromAgent& message);
  void send_signal(rendezvous::NodeId id);
  void on_message(rendezvous::NodeId id, const rendezvous::ToAgent& message);

  // Elections.
  void elect(rendezvous::NodeId id, const rendezvous::ElectionEvent& event, rendezvous::NodeId from = 0);
  void execute(rendezvous::NodeId id, const rendezvous::ElectionAction& action, rendezvous::NodeId from);
  void schedule_election(rendezvous::NodeId id);
  void on_elected(rendezvous::NodeId id, const rendezvous::Lead& won);
  void announce(rendezvous::NodeId id, int term, TimePoint until);

  // The coordinator's side.
  void lead(rendezvous::NodeId id, std::optional<rendezvous::Succession> succession, TimePoint requested_at);
  void ask_for_vote(rendezvous::NodeId id, rendezvous::NodeId voter,
                    const std::shared_ptr<const rendezvous::VoteRequest>& request);
  void stop_leading(rendezvous::NodeId id, const rendezvous::Elsewhere& referral, std::optional<rendezvous::NodeId> at);
  void on_hello(rendezvous::NodeId at, rendezvous::NodeId id, Network::LinkId link, const rendezvous::RecordId& record);
  void answer_elsewhere(rendezvous::NodeId at, rendezvous::NodeId id, Network::LinkId link);
  void on_message(rendezvous::NodeId at, rendezvous::NodeId id, const rendezvous::FromAgent& message);
  void lose(rendezvous::NodeId at, rendezvous::NodeId id, const std::string& how, bool closed);
  void probe(rendezvous::NodeId at, int serial, rendezvous::NodeId id);
  void check_leases(rendezvous::NodeId at, int serial);
  Duration quorum_age(Leadership& leadership, rendezvous::NodeId self);
  void coordinate(rendezvous::NodeId at, const rendezvous::Message& message);
  void tell_spent(Leadership& leadership, const rendezvous::Message& message);
  void check_account(Leadership& leadership);
  void execute(rendezvous::NodeId at, const rendezvous::Order& order);
  void form(rendezvous::NodeId at, const rendezvous::Round& round);
  void send_record_to_standbys(rendezvous::NodeId at);
  void send_record_to_spare(rendezvous::NodeId at, rendezvous::NodeId id);
  void to_node(rendezvous::NodeId at, rendezvous::NodeId id, const rendezvous::ToAgent& message);
  void schedule_coordinator_tick(rendezvous::NodeId at);

  // The node's workers.
  void dispatch(rendezvous::NodeId id, const agent::Event& event);
  void execute(rendezvous::NodeId id, const agent::Action& action);
  void signal_workers(rendezvous::NodeId id, int signal);
  void start(rendezvous::NodeId id, const rendezvous::Seat& seat);
  void check_snapshots(const rendezvous::Round& round) const;
  void keep_snapshots(rendezvous::NodeId id, const rendezvous::Seat& seat);
  void hang(rendezvous::NodeId id);
  void send_standings(rendezvous::NodeId id);
  void blame(rendezvous::NodeId id, const rendezvous::BlameWorker& blamed);
  void train(rendezvous::NodeId id);

  // Their store.
  void open_store(rendezvous::NodeId id, const JobRound& round);
  void open_store_session(rendezvous::NodeId id, const rendezvous::Seat& seat);
  bool has_session(rendezvous::NodeId id, int serial);
  void connect_to_store(rendezvous::NodeId id, int serial);
  void send_to_store(rendezvous::NodeId id, const std::vector<rendezvous::Request>& requests);
  void on_store_reply(rendezvous::NodeId id, const rendezvous::Reply& reply);
  void store_lost(rendezvous::NodeId id, const std::string& why);
  void close_store_session(rendezvous::NodeId id);
  void close_store(rendezvous::NodeId at, rendezvous::NodeId client);
  void break_store_sessions();
  void count_running(const JobRound& round, int change);
  void end_worker(rendezvous::NodeId id, const JobRound& round, int local_rank, const rendezvous::ExitStatus& status);
  void sweep(rendezvous::NodeId id, int round);
  void schedule_tick(rendezvous::NodeId id);
  void finish(rendezvous::NodeId id, const rendezvous::Outcome& outcome);
  bool may_leave(rendezvous::NodeId id);
  void set_leave_deadline(rendezvous::NodeId id);
  void leave_when_notified(rendezvous::NodeId id, TimePoint at_last);
  void check_same_outcome();
  void exit_when_left(rendezvous::NodeId id, TimePoint at_last);
  void check_invariants(rendezvous::NodeId id, const JobRound& starting);

  ClusterOptions options_;
  Network net_;
  std::vector<std::unique_ptr<Node>> nodes_;  // node 1 first
  std::set<rendezvous::NodeId> seated_;       // some may have left
  std::vector<rendezvous::NodeId> slots_;     // the last node started there
  std::map<JobRound, int> running_;           // number of workers by round
  int cuts_ = 0;                              // cuts in force
  std::optional<TimePoint> calm_since_;       // no kill, cut or request to end since
  bool quorum_at_calm_ = false;               // at that time, among reachable nodes
  std::optional<TimePoint> all_alive_since_;  // calm, with a live node in every slot
  std::optional<TimePoint> ended_at_;
  int ended_by_ = 0;                             // the first coordinator that decided the end; 0: none yet
  std::optional<rendezvous::Outcome> end_;       // its decision
  std::set<rendezvous::NodeId> notified_first_;  // told by it
  bool cut_at_end_ = false;                      // some nodes were unreachable then, or since
  int sides_ = 0, serials_ = 0, elections_ = 0, stores_ = 0, sessions_ = 0;
  int jobs_ = 0, starts_ = 0;            // starts: restarts of nodes
  std::set<std::pair<int, int>> terms_;  // jobs and terms with an elected node
  std::map<std::tuple<int, int, rendezvous::NodeId>, std::set<rendezvous::NodeId>>
      votes_;  // by job, term and candidate
  std::map<JobRound, std::set<rendezvous::NodeId>> to_confirm_;
  std::map<JobRound, std::vector<rendezvous::RoundNode>> formed_;
  int rounds_from_snapshots_ = 0;
  std::vector<rendezvous::Act> acts_;  // by their serial
  int acts_done_ = 0;
  std::set<std::pair<int, int>> sizes_;  // of rounds: what users have asked for, and what the job began with
  std::set<JobRound> started_;
  std::map<int, int> last_started_;  // round number by job
  std::map<int, TimePoint> jobs_began_;
  std::mt19937_64 measured_{options_.seed};  // for what agents tell of their rounds: it changes nothing else
  rendezvous::RestartCounts charged_;
  std::map<JobRound, rendezvous::NodeId> failing_;  // the node whose worker will fail
  std::map<JobRound, rendezvous::NodeId> hanging_;  // the node whose first worker hangs: no worker gets on
  int hangs_found_ = 0;
  std::vector<rendezvous::Outcome> outcomes_;
  std::string transcript_;
};

}  // namespace ddprun::test
