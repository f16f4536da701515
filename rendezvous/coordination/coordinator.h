// Decides for the whole job: who is in the next round with which ranks, when a round is over, whether there is another.
//
// A value, not a service: it owns no clock and no socket. Give it every message in the order of arrival; deliver the
// orders it returns to those they are for, in order. It alone holds the restart ledger. On one machine the agent calls
// it in the same process; several nodes add only the wire between.
//
// A round forms when the most nodes are ready, or the fewest are and nobody else can be expected: the last call of the
// first round is over, or every node of the previous round has answered. It never forms while workers of an older one
// may live: nodes that stop theirs are waited for, lost ones until theirs are surely dead. And never without a quorum
// of every round that another coordinator could be elected by: who has lost it is to step down. A coordinator that
// begins a job waits, too, where a node knows of a round and looks for its own coordinator: the job may go on
// elsewhere.
//
// The job's end is told to all, and confirmed by each. Who has been told goes when it hears that all have been; if the
// coordinator dies before, it tells whoever is elected, so that all nodes end alike.
//
// Not thread-safe. A message that names another round than the current one is out of date and changes nothing.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/ledger.h"
#include "rendezvous/coordination/round.h"

namespace ddprun::rendezvous {

// From an agent.
struct NodeReady {  // it has no workers and waits for a round; a node's first one makes it a member
  NodeId node = 0;
  NodeOffer offer;
};
struct NodeConfirmed {  // it holds the round's record and starts when told
  NodeId node = 0;
  int round = 0;
};
struct NodeRunning {  // all its workers of the round have been exec'd
  NodeId node = 0;
  int round = 0;
};
struct NodeDone {  // all its workers of the round ended well
  NodeId node = 0;
  int round = 0;
};
struct WorkerFailed {
  Failure failure;
  // A step or a snapshot since the round began. Empty: no worker there tells, so that the round's age decides.
  std::optional<bool> progressed = {};
};
struct NodeLeaves {  // somebody wants this node to end: a scheduler, SIGTERM
  NodeId node = 0;
  int signal = 0;
};
struct JobInterrupted {  // somebody wants the job to end: Ctrl-C
  NodeId node = 0;
  int signal = 0;
};
struct NodeBack {  // it had been out of reach, and has workers of that round
  NodeId node = 0;
  int round = 0;
  NodeOffer offer;
};
// From those who hold the connections.
struct NodeLost {  // out of reach
  NodeId node = 0;
  TimePoint workers_until;  // by then they are dead, whatever happened there
  std::string how;          // "its connection was closed"
};
struct NodeGone {  // a lost node's agent and workers are known to be dead
  NodeId node = 0;
};
struct JobElsewhere {  // it knows a round of a job that we did not coordinate, and looks for who does
  NodeId node = 0;
  int round = 0;
};
struct JobAbandoned {  // it has given up its part, has no workers, and is another node by now
  NodeId node = 0;
};
struct NodeTold {  // it has heard the job's end, which is for all
  NodeId node = 0;
};
struct JobWasOver {  // another coordinator has told it the job's end
  NodeId node = 0;
  Outcome outcome;
};
struct CoordinatorTick {};  // next_deadline() has come
using Message =
    std::variant<NodeReady, NodeConfirmed, NodeRunning, NodeDone, WorkerFailed, NodeLeaves, JobInterrupted, NodeBack,
                 NodeLost, NodeGone, JobElsewhere, JobAbandoned, NodeTold, JobWasOver, CoordinatorTick>;

// To the agents of the round.
struct FormRound {  // hold the record, confirm
  Round round;
};
struct StartRound {  // all have confirmed
  int round = 0;
};
struct EndRound {  // stop the round's workers, then be ready for another
  int round = 0;
  bool planned = false;  // no worker failed: all can save first
  std::string reason;
  std::optional<Failure> cause = {};
};
// To all agents, spares among them.
struct EndJob {
  Outcome outcome;
  bool for_all = false;  // false: for one node alone, which leaves, came too late or cannot be part of the job
};
struct AllTold {};  // whoever is here has heard the job's end
// To one agent: its round is over.
struct Recall {
  NodeId node = 0;
  int round = 0;
  std::string reason = {};
};
// To one agent: EndJob.
struct Dismiss {
  NodeId node = 0;
  Outcome outcome;
  bool for_all = false;
};
// This coordinator's node is not in the round that all have confirmed: it has ceased to be one, and the agents elect
// that round's, who cannot but win.
struct HandOver {
  NodeId successor = 0;
};
using Order = std::variant<FormRound, StartRound, EndRound, EndJob, AllTold, Recall, Dismiss, HandOver>;

struct RoundPolicy {
  int nodes_min = 1, nodes_max = 1;
  bool fixed_ranks = false;  // static: a node's group rank is the one it wishes, and nobody else's
  RestartPolicy restarts = {};
  // No round for so long: the job ends.
  Duration join_timeout = std::chrono::seconds(600);
  // How long the first round waits for more nodes once it could form.
  Duration last_call = std::chrono::seconds(30);
};

// A node that looks for its coordinator asks again within this time.
constexpr std::chrono::seconds kAsksAgainWithin{10};

// Who is there and who is waited for, for people.
struct Attendance {
  int nodes = 0, nodes_wanted = 0;  // ready; wanted: the fewest, or the most once those are there
  int workers = 0;                  // of those that are ready
  // Nodes that still stop their workers or were lost, and the ranks of a static job that nobody has.
  std::vector<std::string> awaited = {};
  int awaited_more = 0;  // beyond the first kAwaitedNamesMax: every node is told at every heartbeat
};
constexpr std::size_t kAwaitedNamesMax = 8;

// How an elected coordinator goes on where another one stopped.
struct Succession {
  int term = 0;
  Round record;                      // that it was elected by
  TimePoint workers_until;           // by then the record's workers are dead, on every node that has not said so before
  std::optional<Outcome> over = {};  // our agent had been told the job's end: the others have to hear it, no more
};

class Coordinator {
 public:
  // `now`: when waiting for nodes begins. `self`: the node of the agent that this coordinator lives and dies with;
  // empty: of none. Hands over once that has left.
  Coordinator(const RoundPolicy& policy, TimePoint now, std::uint64_t jitter_seed = 0, std::optional<NodeId> self = {});
  Coordinator(const RoundPolicy& policy, TimePoint now, std::uint64_t jitter_seed, NodeId self,
              const Succession& succession);
  // `now` never goes back. After EndJob, who comes is dismissed with the job's outcome.
  std::vector<Order> on(const Message& message, TimePoint now);
  // When CoordinatorTick is due; nothing is polled.
  std::optional<TimePoint> next_deadline() const;
  // Those by which another coordinator could be elected, and go on: not where a quorum has heard the job's end. Whoever
  // is known to be gone is left out. Contact to a quorum
  // of each is what the coordinator lives by.
  std::vector<Electorate> electorates() const;
  int term() const { return term_; }
  bool is_over() const { return std::holds_alternative<Over>(state_); }
  // It is over, and all know who may be there.
  bool all_told() const;
  // What becomes of a lost node still matters.
  bool awaits(NodeId lost) const { return !is_over() || lost_.contains(lost); }
  // Empty while a round is under way or the job is over.
  std::optional<Attendance> attendance() const;

 private:
  using Orders = std::vector<Order>;
  struct Member {
    NodeOffer offer;                       // its last one
    bool ready = false;                    // without workers, for a round; else it is in one, or stops its workers
    int arrival = 0;                       // counts those who came
    std::optional<Outcome> farewell = {};  // it leaves: what it is told once it has no workers
  };
  struct Lost {
    TimePoint workers_until;
    std::string name;
  };
  struct Gathering {
    TimePoint since, not_before;  // back-off
    std::optional<TimePoint> last_call_over = {};
  };
  struct Active {  // formed; it runs once all have confirmed
    Round round;
    std::set<NodeId> confirmed = {}, started = {}, done = {};
    std::optional<TimePoint> all_started_at = {};
  };
  struct Over {
    Outcome outcome;
    // An earlier coordinator ended it, or was lost: nodes of its round that are not here may not know.
    bool inherited = false;
    std::set<NodeId> untold = {};  // of those that are here
    std::set<NodeId> told = {};
    bool announced = false;  // AllTold
  };
  struct HandedOver {};

  Orders handle(const NodeReady& message, TimePoint now);
  Orders handle(const NodeConfirmed& message, TimePoint now);
  Orders handle(const NodeRunning& message, TimePoint now);
  Orders handle(const NodeDone& message, TimePoint now);
  Orders handle(const WorkerFailed& message, TimePoint now);
  Orders handle(const NodeLeaves& message, TimePoint now);
  Orders handle(const JobInterrupted& message, TimePoint now);
  Orders handle(const NodeBack& message, TimePoint now);
  Orders handle(const NodeLost& message, TimePoint now);
  Orders handle(const NodeGone& message, TimePoint now);
  Orders handle(const JobElsewhere& message, TimePoint now);
  Orders handle(const JobAbandoned& message, TimePoint now);
  Orders handle(const NodeTold& message, TimePoint now);
  Orders handle(const JobWasOver& message, TimePoint now);
  Orders handle(const CoordinatorTick& message, TimePoint now);

  // After the end.
  Orders after_end(Over& over, const Message& message);
  Orders greet(Over& over, const NodeReady& message);
  Orders greet(Over& over, const NodeBack& message);
  void note_told(Over& over, NodeId node);
  void note_lost(Over& over, const NodeLost& message);

  Active* active(int round, NodeId node);                           // null: another one, or none, or not with it
  Active* active_with(NodeId node);                                 // null: it is in no round
  std::optional<Outcome> refusal(const NodeOffer& newcomer) const;  // empty: welcome
  void add(NodeId node, Member member);
  Member remove(std::map<NodeId, Member>::iterator member);
  void set_ready(Member& member, bool ready);
  void lose(NodeId node, Lost lost);
  void forget_lost(TimePoint now);
  int staying() const;  // members that do not leave
  Orders regroup(EndRound end, TimePoint now, TimePoint not_before);
  Orders go_on(TimePoint now);
  bool can_form(const Gathering& state, TimePoint now) const;
  bool has_quorum() const;
  void call_last(Gathering& state, TimePoint now) const;
  Orders form();
  std::vector<NodeId> by_rank() const;
  Orders dismiss(NodeId node, TimePoint now);  // that leaves
  Orders end_job(Outcome outcome);

  RoundPolicy policy_;
  Ledger ledger_;
  std::optional<NodeId> self_;
  int term_ = 0;
  TimePoint now_;
  int rounds_ = 0, arrivals_ = 0;
  int rounds_seen_ = 0;  // by nodes of a job that could not go on
  std::map<NodeId, Member> members_;
  int ready_ = 0;                               // of them
  std::map<int, NodeId> rank_held_;             // by whom, where ranks are fixed
  std::map<NodeId, Lost> lost_;                 // their workers may live
  TimePoint lost_until_ = {};                   // no earlier are the workers of one of them dead
  std::set<NodeId> gone_;                       // they will never vote again
  std::map<NodeId, TimePoint> look_elsewhere_;  // until when
  std::vector<NodeId> last_by_rank_;            // of the last round
  std::vector<Electorate> electorates_;
  std::string taken_over_;  // why a round of the coordinator before us is over
  std::variant<Gathering, Active, Over, HandedOver> state_;
};

}  // namespace ddprun::rendezvous
