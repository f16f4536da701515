// The messages between agents and the coordinator, and their encoding: one JSON object each.
// docs/internals/control-protocol.md describes it for people.
//
// Pure. Any bytes become either a message whose every value is in its range, or a BadMessage.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/election/election.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

// Raised with whatever nodes of one job say to each other, snapshots' copies and the store's proxies included.
constexpr int kControlProtocol = 14;
// The first version of ddprun that speaks it. What nodes compare is this, and not their own versions: those with one
// protocol are nodes of one job. Changed with the protocol alone.
constexpr const char* kControlProtocolSince = "0.2.0";

// What all agents of one job have in common. Its run id is in the greeting already.
struct Fingerprint {
  int protocol = kControlProtocol;
  std::string version;  // kControlProtocolSince
  std::string nodes;    // "2:4"
  std::string program;  // its file name

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// Why they cannot belong to one job, naming both sides' values; empty: they can.
std::string difference(const Fingerprint& coordinators, const Fingerprint& newcomers);

// The first message of an agent.
struct Hello {
  Fingerprint fingerprint;
  std::uint16_t control_port = 0;  // where this agent listens
  RecordId record = {};            // the newest it has seen: no agent that knows less can coordinate the job
  NodeId instead_of = 0;           // this agent was that node, whose job could not continue
};
// Any message shows that the agent lives; this one is for times without others, and is answered.
struct Heartbeat {
  std::uint64_t number = 0;    // 1, 2, ...
  std::uint64_t answered = 0;  // the last one whose answer has come; 0: the welcome
  Duration loop_stood = {};    // so long the agent's loop, which acts on orders, has done nothing that it was given
};
// The report on a failed worker, for people, by its agent.
struct FailureText {
  std::string text;
};
// Instead of a hello, to an agent that may follow: the sender has been elected.
struct CoordinatorAnnouncement {
  int term = 0;
  std::uint16_t control_port = 0;
};
// Instead of a hello, by somebody who is no agent: what `ddprun status` and the like ask.
struct ClientRequest {
  std::string line;  // at most kClientLineMax bytes
};
constexpr std::size_t kClientLineMax = 1024, kClientTextMax = 3 << 20;
// VoteRequest comes instead of a hello, too.
using FromAgent =
    std::variant<Hello, Heartbeat, FailureText, NodeReady, NodeConfirmed, NodeRunning, NodeDone, WorkerFailed,
                 NodeLeaves, JobInterrupted, NodeBack, NodeNotified, NodeStandings, Asked, Answered, NodePace,
                 NodeLearned, NodeSpent, JobWasOver, VoteRequest, CoordinatorAnnouncement, ClientRequest>;

constexpr std::chrono::seconds kLoopLimit{30};  // for an agent whose loop stands, though its link answers
// The first message to an agent.
struct Welcome {
  std::string your_address;          // by which its connection reached us
  Duration lease = {};               // after this long without contact to a quorum, its workers must be dead
  int term = 0;                      // the coordinator's
  Duration quorum_age = {};          // time since the coordinator's last contact to a quorum
  NodeId coordinator = 0;            // the node whose agent runs it; 0: none
  Duration loop_limit = kLoopLimit;  // a node whose loop has stood for this long is lost; its workers must be dead then
};
// The answer to a hello where there is no coordinator, and the last message of one that stops leading.
struct Elsewhere {
  int term = 0;
  std::optional<ControlAddress> coordinator = {};  // empty: not known here either
  NodeId agent = 0;                                // the sender
  RecordId record = {};                            // the newest it has seen
};
struct HeartbeatAnswer {
  std::uint64_t number = 0;
  Duration quorum_age = {};                   // as in Welcome
  std::optional<Attendance> attendance = {};  // while nodes are awaited
};
// Sent before TakeSeat, to the first `kStandbys` nodes by rank: any of them could coordinate the job with it.
struct KeepRecord {
  Round record;
};
constexpr std::size_t kStandbys = 64;
struct TakeSeat {  // hold it, confirm
  Seat seat;
  int term = 0;  // the record has this term and the seat's round
};
// Rounds are formed without this machine, as long as enough others are there.
struct Excluded {
  std::string why;
  Duration lasts = {};
};
// To whoever sent a ClientRequest, from any agent.
struct ClientAnswer {
  std::string text;  // at most kClientTextMax bytes
};
using ToAgent =
    std::variant<Welcome, Elsewhere, HeartbeatAnswer, FailureText, KeepRecord, TakeSeat, StartRound, EndRound, EndJob,
                 AllNotified, Excluded, AskStandings, BlameWorker, ReportPace, AskNodes, JobReply, ReportAct,
                 SuspendWorkers, TakeSnapshot, KeepRange, InjectFault, Vote, ClientAnswer>;

class BadMessage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The node of a message to the coordinator is not written: it follows from the connection.
std::string encode(const FromAgent& message);
std::string encode(const ToAgent& message);
// Throws BadMessage. `node`: whose connection it came by.
FromAgent decode_from_agent(std::string_view bytes, NodeId node);
ToAgent decode_to_agent(std::string_view bytes);

}  // namespace ddprun::rendezvous
