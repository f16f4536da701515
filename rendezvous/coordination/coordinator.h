// Decides for the whole job: who is in the next round with which ranks, when a round ends, whether another one follows.
//
// A value, not a service: it owns no clock and no socket. Give it every message in the order of arrival; deliver the
// orders it returns to their receivers, in order. It alone holds the restart ledger. On one machine the agent calls it
// in the same process; several nodes add only the wire between.
//
// A round forms when the maximum of nodes is ready, or the minimum is and no other node can be expected: the last call
// of the first round is over, or every node of the previous round has answered. It never forms while workers of an
// older one may act: it waits for nodes that stop theirs, and for lost ones until theirs are surely dead. (What SIGKILL
// has reached acts no more, even if the kernel holds it.) Nor does it form without a quorum of every round that could
// elect another coordinator: one that has lost it must step down. A coordinator that begins a job also waits while a
// node knows of a round and looks for its own coordinator: that job may continue elsewhere.
//
// The job's end is sent to all nodes, and each confirms it. A node leaves when it learns that all have confirmed; if
// the coordinator dies before, the node tells the newly elected one, so that all nodes end alike.
//
// Not thread-safe. A message that names another round than the current one is out of date and changes nothing.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/job_clock.h"
#include "rendezvous/coordination/inquiry/act.h"
#include "rendezvous/coordination/inquiry/hang_inquiry.h"
#include "rendezvous/coordination/inquiry/job_view.h"
#include "rendezvous/coordination/inquiry/straggler.h"
#include "rendezvous/coordination/round/excluded_hosts.h"
#include "rendezvous/coordination/round/failure_rules.h"
#include "rendezvous/coordination/round/ledger.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

// From an agent.
struct NodeReady {  // it has no workers that may act, and waits for a round; the first one makes a node a member
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
  // Whether a step or snapshot was reported in this round. Empty: no worker there reports, so the round's age decides.
  std::optional<bool> progressed = {};
  std::optional<RuleMatch> rule = {};  // of the job's rules, by the failed worker's agent
};
struct NodeLeaves {  // somebody wants this node to end: a scheduler, SIGTERM
  NodeId node = 0;
  int signal = 0;
};
struct JobInterrupted {  // somebody wants the job to end: Ctrl-C
  NodeId node = 0;
  int signal = 0;
};
struct NodeBack {  // it was out of reach, and has workers of that round
  NodeId node = 0;
  int round = 0;
  NodeOffer offer;
};
// From the owner of the connections.
struct NodeLost {  // out of reach
  NodeId node = 0;
  TimePoint workers_until;  // by then they are dead, whatever happened there
  std::string how;          // "its connection was closed"
};
struct NodeGone {  // a lost node's agent and workers are known to be dead
  NodeId node = 0;
};
struct JobElsewhere {  // it knows a round that we did not coordinate, and looks for its coordinator
  NodeId node = 0;
  int round = 0;
};
struct JobAbandoned {  // it left in order to rejoin, has no workers, and has a new id
  NodeId node = 0;
};
struct NodeNotified {  // it has received the job's end, which is for all
  NodeId node = 0;
};
struct NodeStandings {  // of its workers: one is overdue, or the coordinator has asked
  NodeId node = 0;
  int round = 0;
  std::vector<Standing> standings;
};
struct StacksWanted {  // of all workers of the round, for somebody who asked this node's agent
  NodeId node = 0;
  int serial = 0;  // the agent's own
};
struct StacksTaken {  // of this node's workers
  NodeId node = 0;
  NodeId asker = 0;
  int serial = 0;
  std::string text;  // at most kStacksTextMax bytes
};
constexpr std::size_t kStacksTextMax = 1 << 20;
struct StatusWanted {  // of the job and all workers of the round, for somebody who asked this node's agent
  NodeId node = 0;
  int serial = 0;         // the agent's own
  bool job_only = false;  // not of the workers
  bool lines = false;     // with the last lines of the workers' output
};
struct NodeStatus {
  NodeId node = 0;
  NodeId asker = 0;
  int serial = 0;  // the asker's
  NodeReport report;
};
struct ActWanted {  // by somebody who asked this node's agent
  NodeId node = 0;
  int serial = 0;  // the agent's own
  Act act;
};
struct RankAsked {  // of the node that runs this rank, by somebody who asked this node's agent
  NodeId node = 0;
  int serial = 0;  // the agent's own
  int rank = 0;
  std::string question;  // at most kQuestionMax bytes
};
struct RankAnswered {
  NodeId node = 0;
  NodeId asker = 0;
  int serial = 0;    // the asker's
  std::string text;  // at most kAnswerMax bytes
};
constexpr std::size_t kQuestionMax = 1024, kAnswerMax = std::size_t{512} * 1024;
struct NodePace {  // of its workers since their last one: five steps and 0.6 s at least
  NodeId node = 0;
  int round = 0;
  std::vector<Pace> windows;
};
struct NodeLearned {  // of its workers' beats
  NodeId node = 0;
  int round = 0;
  LearnedTimes times;
};
struct NodeSpent {  // what its agent has measured of a round that has ended here
  NodeId node = 0;
  int round = 0;
  RoundSpent spent;
};
// Enough nodes tell it: those of the first group ranks.
constexpr int kSpentTellers = 64;
struct JobWasOver {  // another coordinator has told it the job's end
  NodeId node = 0;
  Outcome outcome;
};
struct CoordinatorTick {};  // next_deadline() has come
using Message = std::variant<NodeReady, NodeConfirmed, NodeRunning, NodeDone, WorkerFailed, NodeLeaves, JobInterrupted,
                             NodeBack, NodeLost, NodeGone, JobElsewhere, JobAbandoned, NodeNotified, NodeStandings,
                             StacksWanted, StacksTaken, StatusWanted, NodeStatus, ActWanted, RankAsked, RankAnswered,
                             NodePace, NodeLearned, NodeSpent, JobWasOver, CoordinatorTick>;

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
  bool for_all = false;  // false: for one node, which leaves, came too late or cannot be part of the job
};
struct AllNotified {};  // all connected nodes have received the job's end
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
// To one agent: rounds are formed without its machine for now.
struct Exclude {
  NodeId node = 0;
  std::string why;
  Duration lasts = {};
};
struct AskStandings {  // to the agents of the round: NodeStandings at once
  int round = 0;
};
struct TakeStacks {  // to the agents of the round: StacksTaken
  NodeId asker = 0;
  int serial = 0;
};
// To the agent that asked: those of one node.
struct StacksOfNode {
  NodeId asker = 0;
  int serial = 0;
  int nodes = 0;  // from which stacks come in all; 0: no round is under way
  std::string text;
};
// To the agent that asked: what the coordinator knows.
struct JobStatus {
  NodeId asker = 0;
  int serial = 0;
  JobView view;
};
struct ReportStatus {  // to the agents of the round: NodeStatus
  NodeId asker = 0;
  int serial = 0;
  bool lines = false;  // with the last lines of the workers' output
};
// To the agent that asked: of one node.
struct StatusOfNode {
  NodeId asker = 0;
  int serial = 0;
  NodeReport report;
};
// To the agent that asked: whether it is done, and what follows, or why not.
struct ActDone {
  NodeId asker = 0;
  int serial = 0;
  bool done = false;
  std::string text = {};
};
// To the agent of group rank 0, for people and for the event log; without a round to the one that asked.
struct ReportAct {
  NodeId node = 0;
  Act act;
  bool done = false;
  std::string text = {};
};
struct AskRank {  // to the agent that runs this rank: RankAnswered
  NodeId node = 0;
  NodeId asker = 0;
  int serial = 0;
  int rank = 0;
  std::string question = {};
};
// To the agent that asked.
struct AnswerOfRank {
  NodeId asker = 0;
  int serial = 0;
  int world_size = 0;     // of the newest round; 0: there is none
  std::string text = {};  // empty: no node of it runs that rank
};
struct SuspendWorkers {  // to the agents of the round: stop them by SIGSTOP, or let them go on
  int round = 0;
  bool suspended = false;
};
struct TakeSnapshot {  // to the agents of the round: ask the workers to save and go on
  int round = 0;
};
struct KeepRange {  // to all agents: a user has resized the job, which who holds this record adds to it
  RecordId record;
  NodeRange range;
};
struct InjectFault {  // to the agent of the fault's rank
  NodeId node = 0;
  int round = 0;
  Fault fault = {};
};
// To one agent: this worker of its node holds up the round.
struct BlameWorker {
  NodeId node = 0;
  int round = 0;
  int rank = 0;
  std::string text;     // HangFinding::text
  bool of_all = false;  // HangFinding::of_all
};
// To the agent of group rank 0, for people and for the event log.
struct ReportPace {
  NodeId node = 0;
  int round = 0;
  PaceChange change;
  std::string host = {};  // the straggler's; empty: no rank, or the round has one node
  std::string then = {};  // what is done about it, or would be; empty: nothing
};
// This coordinator's node is not in the round that all have confirmed: it stops coordinating, and the agents elect that
// round's coordinator, unopposed.
struct HandOver {
  NodeId successor = 0;
};
using Order =
    std::variant<FormRound, StartRound, EndRound, EndJob, AllNotified, Recall, Dismiss, Exclude, AskStandings,
                 BlameWorker, ReportPace, TakeStacks, StacksOfNode, JobStatus, ReportStatus, StatusOfNode, ActDone,
                 ReportAct, AskRank, AnswerOfRank, SuspendWorkers, TakeSnapshot, InjectFault, KeepRange, HandOver>;

// By what the round's end says.
RoundEnd round_end(bool planned, const std::optional<Failure>& cause);
RoundEnd round_end(const Outcome& outcome);

struct RoundPolicy {
  int nodes_min = 1, nodes_max = 1;
  int spares = 0;            // nodes beyond the most that may join as well, and wait
  bool fixed_ranks = false;  // static: each node has the group rank that it asks for, and spares ask for those above
  RestartPolicy restarts = {};
  std::vector<FailureRule> rules = {};  // for lost nodes; a worker's failure comes with its match
  LedgerRecord earlier_starts = {};     // of this job
  ExclusionPolicy exclusion = {};
  StragglerPolicy stragglers = StragglerPolicy::say;
  bool allow_chaos = false;  // users may have the job suffer faults
  // The job ends if no round forms for this long.
  Duration join_timeout = std::chrono::seconds(600);
  // How long the first round waits for more nodes once it could form.
  Duration last_call = std::chrono::seconds(30);
  // The record is kept outside of the nodes, where coordinators are found, too (etcd): no node has a vote.
  bool record_outside = false;
};

// A node that looks for its coordinator repeats its hello within this time.
constexpr std::chrono::seconds kSearchRetryWithin{10};

// Which nodes are ready and which are awaited, for people.
struct Attendance {
  int nodes = 0, nodes_wanted = 0;  // ready; wanted: the minimum, or the maximum once that is reached
  int workers = 0;                  // of the ready nodes
  // Nodes that still stop their workers or were lost, nodes that can be in no round, with the reason, and the ranks of
  // a static job that no node has.
  std::vector<std::string> awaited = {};
  int awaited_more = 0;  // beyond the first kAwaitedNamesMax: every heartbeat answer contains the names
};
constexpr std::size_t kAwaitedNamesMax = 8, kAwaitedReasonMax = 200;

// How an elected coordinator continues another one's job.
struct Succession {
  int term = 0;
  Round record;             // by which it was elected
  TimePoint workers_until;  // by then the record's workers are dead; nodes may report it earlier
  Duration record_age = {};
  std::optional<Outcome> over = {};  // our agent knows the job's end: only the others have to be notified
  bool round_ran = true;             // until now, as far as anybody knows: its time counts
};

class Coordinator {
 public:
  // `now`: when waiting for nodes begins. `self`: the node whose agent runs this coordinator; empty: none. Hands over
  // once that node has left.
  Coordinator(const RoundPolicy& policy, TimePoint now, std::uint64_t jitter_seed = 0, std::optional<NodeId> self = {});
  Coordinator(const RoundPolicy& policy, TimePoint now, std::uint64_t jitter_seed, NodeId self,
              const Succession& succession);
  // `now` never goes back. After EndJob, a node that comes is dismissed with the job's outcome.
  std::vector<Order> on(const Message& message, TimePoint now);
  // When CoordinatorTick is due; nothing is polled.
  std::optional<TimePoint> next_deadline() const;
  // The electorates that could elect another coordinator to continue the job: not those of which a quorum has received
  // the job's end. Nodes known to be gone are left out. The coordinator must keep contact to a quorum of each. With a
  // record outside: the newest round that was formed here, to all nodes of which contact is needed if there is none to
  // that place.
  std::vector<Electorate> electorates() const;
  int term() const { return term_; }
  bool is_over() const { return std::holds_alternative<Over>(state_); }
  // The job is over, and all nodes that may still be there know.
  bool all_notified() const;
  // Whether it still matters what becomes of a lost node.
  bool awaits(NodeId lost) const { return !is_over() || lost_.contains(lost); }
  const Ledger& ledger() const { return ledger_; }
  LedgerRecord ledger_record(TimePoint now) const;
  // Where the job's time went until now, earlier starts included. `running`: what an agent of the round that runs has
  // measured; empty: what is known here.
  TimeAccount account(TimePoint now, const std::optional<RoundSpent>& running = {}) const {
    return clock_.account(now, running);
  }
  // Grows with every change of the ledger's record.
  int changes() const { return ledger_.changes() + clock_.changes(); }
  // Null while it is not over.
  const Outcome* outcome() const;
  // For people and programs that ask.
  JobView view(TimePoint now) const;
  // Empty while a round is under way or the job is over.
  std::optional<Attendance> attendance() const;

 private:
  using Orders = std::vector<Order>;
  struct Member {
    NodeOffer offer;                        // its last one
    bool ready = false;                     // it has no workers; false: it is in a round, or stops its workers
    int arrival = 0;                        // its number in the order of arrival
    std::optional<Outcome> dismissal = {};  // it leaves: sent to it once it has no workers
    bool knows_exclusion = false;
    std::optional<int> workers = {};  // by a user; what it offers until it has got a seat says otherwise
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
    TimePoint formed_at;
    std::set<NodeId> confirmed = {}, started = {}, done = {};
    std::optional<TimePoint> all_started_at = {};
    HangInquiry inquiry = {};
    StragglerWatch pace = {};
    bool paused = false;  // by a user
  };
  struct Over {
    Outcome outcome;
    // An earlier coordinator ended it, or was lost: absent nodes of its round may not know.
    bool inherited = false;
    std::set<NodeId> unconfirmed = {};  // only connected nodes
    std::set<NodeId> notified = {};
    bool announced = false;  // AllNotified
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
  Orders handle(const NodeNotified& message, TimePoint now);
  Orders handle(const NodeStandings& message, TimePoint now);
  Orders handle(const StacksWanted& message, TimePoint now);
  Orders handle(const StacksTaken& message, TimePoint now);
  Orders handle(const RankAsked& message, TimePoint now);
  Orders handle(const RankAnswered& message, TimePoint now);
  Orders handle(const StatusWanted& message, TimePoint now);
  Orders handle(const NodeStatus& message, TimePoint now);
  Orders handle(const ActWanted& message, TimePoint now);
  Orders handle(const NodePace& message, TimePoint now);
  Orders handle(const NodeLearned& message, TimePoint now);
  Orders handle(const NodeSpent& message, TimePoint now);
  Orders handle(const JobWasOver& message, TimePoint now);
  Orders handle(const CoordinatorTick& message, TimePoint now);

  // After the end.
  Orders after_end(Over& over, const Message& message);
  Orders answer_after_end(Over& over, const NodeReady& message);
  Orders answer_after_end(Over& over, const NodeBack& message);
  void on_notified(Over& over, NodeId node);
  void note_lost(Over& over, const NodeLost& message);

  // What users do. Orders are added to the last argument.
  struct Done {
    bool done = false;
    std::string text = {};
  };
  std::optional<NodeId> node_named(const std::string& name) const;
  Done carry_out(const Act& act, TimePoint now, Orders& orders);
  Done restart(const Act& act, TimePoint now, Orders& orders);
  Done drain(const Act& act, TimePoint now, Orders& orders);
  Done admit(const Act& act, TimePoint now, Orders& orders);
  Done resize(const Act& act, TimePoint now, Orders& orders);
  void take_range(const NodeRange& range);
  Done change_workers(const Act& act, TimePoint now, Orders& orders);
  void take_offer(Member& member, const NodeOffer& offer);
  bool can_shrink_to(int nodes) const;
  Done suspend(const Act& act, Orders& orders);
  Done take_snapshot(Orders& orders);
  Done inject(const Act& act, Orders& orders);

  NodeView view_of(NodeId id, const Member& member, bool a_round_runs) const;
  std::vector<NodeView> node_views() const;
  Active* active(int round, NodeId node);  // null: another round, none, or one without the node
  Active* active_with(NodeId node);        // null: it is in no round
  std::optional<Outcome> refusal(const NodeOffer& newcomer) const;  // empty: accepted
  std::string surplus_of_step(const NodeOffer& newcomer) const;     // why it is refused; empty: it is not
  void add(NodeId node, Member member);
  Member remove(std::map<NodeId, Member>::iterator member);
  void set_ready(Member& member, bool ready);
  void lose(NodeId node, Lost lost);
  void has_come(NodeId node);
  void forget_lost(TimePoint now);
  int staying() const;  // members that do not leave
  Orders regroup(EndRound end, TimePoint now, TimePoint not_before);
  Orders advance(TimePoint now);
  bool can_form(const Gathering& state, TimePoint now) const;
  // Of each electorate, by the members that count.
  bool has_quorum(const std::function<bool(const Member&)>& counts) const;
  bool is_quorum(const std::set<NodeId>& present) const;
  bool may_form_yet() const;         // with the members that are here
  std::string why_no_round() const;  // after the join timeout
  std::string unfit_nodes() const;
  void update_last_call(Gathering& state, TimePoint now) const;
  Orders form();
  std::optional<CommonSnapshot> common_snapshot(const std::vector<RoundNode>& nodes) const;
  std::vector<NodeId> by_rank() const;
  int count_fit() const;     // ready nodes that can be in a round
  int count_usable() const;  // those that are not excluded either
  static bool is_fit(const Member& member) { return member.ready && member.offer.unfit.empty(); }
  bool is_usable(const Member& member) const { return is_fit(member) && !excluded_.why(member.offer); }
  bool leaves_out_excluded() const;  // enough others are ready
  void note_failure_of(const Failure& failure, bool excluded_by_rule, TimePoint now);
  std::vector<Order> tell_excluded();
  Orders readmit(TimePoint now);
  Orders welcome_back(TimePoint now);
  bool can_go_on_without(NodeId node) const;
  Orders replace(NodeId node, TimePoint now);                    // a straggler
  Orders dismiss(NodeId node, TimePoint now);                    // a node that leaves
  Orders follow(const RuleMatch& rule, const Failure& failure);  // a rule that ends the job
  std::optional<Outcome> charge_lost_node(const NodeOffer& node, const std::string& what, TimePoint now);
  void credit_round(TimePoint now);
  Orders end_job(Outcome outcome);
  void watch_stop();
  void note_spent(const NodeSpent& message);

  RoundPolicy policy_;
  Ledger ledger_;
  ExcludedHosts excluded_;
  JobClock clock_;
  std::optional<NodeId> self_;
  int term_ = 0;
  TimePoint now_;
  int rounds_ = 0, arrivals_ = 0;
  std::vector<RoundNode> last_nodes_;  // of the newest round that was formed here
  int rounds_seen_ = 0;                // by nodes of a job that could not continue
  std::map<NodeId, Member> members_;
  int ready_ = 0;                                // how many are ready
  bool knows_unfit_ = false;                     // some node said that it could be in no round
  std::map<int, NodeId> rank_held_;              // which node has each rank, if ranks are fixed
  std::map<NodeId, Lost> lost_;                  // their workers may live
  TimePoint lost_until_ = {};                    // the first time at which workers of one of them are dead
  std::set<NodeId> gone_;                        // they will never vote again
  std::map<NodeId, TimePoint> searching_nodes_;  // until when
  std::vector<NodeId> last_by_rank_;             // of the last round
  std::vector<Electorate> electorates_;
  RecordId record_;                   // of the last round
  std::optional<NodeRange> resized_;  // policy_ has it, too
  std::string takeover_reason_;       // why the previous coordinator's round ended
  std::variant<Gathering, Active, Over, HandedOver> state_;
};

}  // namespace ddprun::rendezvous
