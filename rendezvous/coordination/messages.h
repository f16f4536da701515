// What the coordinator is told, and what it has its agents do.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/learned_times.h"
#include "rendezvous/coordination/account/pace_comparison.h"
#include "rendezvous/coordination/account/round_spent.h"
#include "rendezvous/coordination/account/standing.h"
#include "rendezvous/coordination/inquiry/fault.h"
#include "rendezvous/coordination/inquiry/question.h"
#include "rendezvous/coordination/inquiry/straggler.h"
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
struct Asked {  // a user asked this node's agent
  NodeId node = 0;
  int serial = 0;  // the agent's own
  Question question;
};
struct Answered {
  NodeId node = 0;
  NodeId asker = 0;
  int serial = 0;  // the asker's
  NodeAnswer answer;
};
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
                             Asked, Answered, NodePace, NodeLearned, NodeSpent, JobWasOver, CoordinatorTick>;

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
// To one agent, or to those of the round: Answered.
struct AskNodes {
  std::optional<NodeId> node = {};
  NodeId asker = 0;
  int serial = 0;
  Question question = {};
};
// To the agent that asked. There may be several.
struct JobReply {
  NodeId asker = 0;
  int serial = 0;
  int nodes = 0;  // the round has so many; 0: none is under way
  JobAnswer answer = {};
};
// To the agent of group rank 0, for people and for the event log; without a round to the one that asked.
struct ReportAct {
  NodeId node = 0;
  Act act;
  bool done = false;
  std::string text = {};
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
using Order = std::variant<FormRound, StartRound, EndRound, EndJob, AllNotified, Recall, Dismiss, Exclude, AskStandings,
                           BlameWorker, ReportPace, AskNodes, JobReply, ReportAct, SuspendWorkers, TakeSnapshot,
                           InjectFault, KeepRange, HandOver>;

}  // namespace ddprun::rendezvous
