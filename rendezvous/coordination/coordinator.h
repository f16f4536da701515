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
#include "rendezvous/coordination/inquiry/hang_inquiry.h"
#include "rendezvous/coordination/inquiry/straggler.h"
#include "rendezvous/coordination/messages.h"
#include "rendezvous/coordination/round/electorates.h"
#include "rendezvous/coordination/round/excluded_hosts.h"
#include "rendezvous/coordination/round/job_end.h"
#include "rendezvous/coordination/round/ledger.h"
#include "rendezvous/coordination/round/members.h"
#include "rendezvous/coordination/round/round.h"
#include "rendezvous/coordination/round/round_policy.h"
#include "rendezvous/coordination/round/seating.h"

namespace ddprun::rendezvous {

struct ActEffect;

// By what the round's end says.
RoundEnd round_end(bool planned, const std::optional<Failure>& cause);
RoundEnd round_end(const Outcome& outcome);

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
  bool is_over() const { return std::holds_alternative<JobEnd>(state_); }
  // The job is over, and all nodes that may still be there know.
  bool all_notified() const;
  // Whether it still matters what becomes of a lost node.
  bool awaits(NodeId lost) const { return !is_over() || members_.lost().contains(lost); }
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
  Orders handle(const Asked& message, TimePoint now);
  Orders handle(const Answered& message, TimePoint now);
  Orders handle(const NodePace& message, TimePoint now);
  Orders handle(const NodeLearned& message, TimePoint now);
  Orders handle(const NodeSpent& message, TimePoint now);
  Orders handle(const JobWasOver& message, TimePoint now);
  Orders handle(const CoordinatorTick& message, TimePoint now);

  Orders after_end(JobEnd& end, const Message& message);
  Orders answer_after_end(const Asked& asked);

  // What users ask.
  Orders answer(const Asked& asked, const AskStacks& question, TimePoint now);
  Orders answer(const Asked& asked, const AskStatus& question, TimePoint now);
  Orders answer(const Asked& asked, const AskRank& question, TimePoint now);
  Orders answer(const Asked& asked, const Act& act, TimePoint now);
  JobReply reply(const Asked& asked, JobAnswer answer) const;
  int nodes_in_round() const;

  Orders carry_out(const ActEffect& effect, TimePoint now);

  NodeView view_of(NodeId id, const Member& member, bool a_round_runs) const;
  std::vector<NodeView> node_views() const;
  Active* active(int round, NodeId node);                         // null: another round, none, or one without the node
  Active* active_with(NodeId node);                               // null: it is in no round
  Member& take(NodeId node, const NodeOffer& offer, bool ready);  // from a member
  Orders regroup(EndRound end, TimePoint now, TimePoint not_before);
  Orders regroup_as_planned(std::string reason, TimePoint now);  // at no charge
  Orders advance(TimePoint now);
  bool can_form(const Gathering& state, TimePoint now) const;
  bool is_quorum(const std::set<NodeId>& present) const;
  bool has_quorum(const std::function<bool(const Member&)>& counts) const { return is_quorum(members_.which(counts)); }
  std::function<bool(NodeId)> is_gone() const;
  bool may_form_yet() const;         // with the members that are here
  std::string why_no_round() const;  // after the join timeout
  std::string unfit_nodes() const;
  void update_last_call(Gathering& state, TimePoint now) const;
  Orders form();
  std::optional<CommonSnapshot> common_snapshot(const std::vector<RoundNode>& nodes) const;
  std::vector<NodeId> by_rank() const;
  int count_usable() const;  // ready nodes that can be in a round, and are not excluded
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

  RoundPolicy policy_;
  Ledger ledger_;
  ExcludedHosts excluded_;
  JobClock clock_;
  std::optional<NodeId> self_;
  int term_ = 0;
  TimePoint now_;
  int rounds_ = 0;
  std::vector<RoundNode> last_nodes_;  // of the newest round that was formed here
  int rounds_seen_ = 0;                // by nodes of a job that could not continue
  Members members_;
  std::map<NodeId, TimePoint> searching_nodes_;  // until when
  std::vector<NodeId> last_by_rank_;             // of the last round
  Electorates electorates_;
  RecordId record_;                   // of the last round
  std::optional<NodeRange> resized_;  // policy_ has it, too
  std::string takeover_reason_;       // why the previous coordinator's round ended
  std::variant<Gathering, Active, JobEnd, HandedOver> state_;
};

}  // namespace ddprun::rendezvous
