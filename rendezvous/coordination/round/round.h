// A round is one generation of the group: a fixed list of nodes and ranks, one master address, one store.
//
// Plain values that the coordinator decides. Every agent receives its own seat; the first ones by rank also receive the
// whole round as a record, by which each of them could coordinate later. Round numbers only grow; a message that names
// an old round is out of date and refused.
#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/learned_times.h"
#include "rendezvous/coordination/account/time_account.h"
#include "rendezvous/coordination/round/failure_class.h"
#include "rendezvous/peer/control_address.h"

namespace ddprun::rendezvous {

using NodeId = std::uint64_t;  // drawn at the agent's start: a restarted agent is another node

// A snapshot in memory with a copy on another node: of one rank of one world.
struct HeldSnapshot {
  int rank = 0, world_size = 1;
  int round = 0;  // in which its rank kept it
  std::uint64_t step = 0;

  friend bool operator==(const HeldSnapshot&, const HeldSnapshot&) = default;
};

// What a node brings to the next round: its workers, and a store that already listens, in case it becomes group rank 0.
struct NodeOffer {
  int workers = 1;
  std::string host = {};  // the address by which the others reach it
  std::uint16_t port = 0;
  std::string role = "default";
  std::optional<int> requested_rank = {};  // --node-rank
  std::string name = {};                   // its host name, for people
  ControlAddress control = {};
  int rounds = 0;                       // the last round that it was in, also of a job that could not continue
  std::string unfit = {};               // why it can be in no round for now: its health check; empty: it can
  std::vector<HeldSnapshot> held = {};  // its own workers' and its neighbour's
  int workers_most = 0;                 // that it may be asked to have (ActKind::add_workers)
  std::string step = {};                // of srun or mpirun, which started this node's agent and others; empty: unknown
};
constexpr int kWorkersMax = 1 << 16;  // of a node

// For people: "gpu-7 (10.0.0.7)".
std::string name_of(const std::string& name, const std::string& host);
std::string name_of(const NodeOffer& offer);

struct RoundNode {
  NodeId id = 0;
  int workers = 1;
  int first_rank = 0;  // the global rank of its local rank 0
  std::string role = "default";
  std::string name = {};  // its host name, for people
  ControlAddress control = {};
};

// Why the job's rounds ended so far: failures by class (failure_class.h), and what is no failure.
struct RestartCounts {
  int errors = 0, crashes = 0, out_of_memory = 0, hangs = 0, starts = 0, unkillable = 0, usage = 0;
  int lost_nodes = 0, preemptions = 0, resizes = 0;

  // Restarts after failures.
  int spent() const { return errors + crashes + out_of_memory + hangs + starts + unkillable + usage; }
  int& of(FailureClass kind);
  friend bool operator==(const RestartCounts&, const RestartCounts&) = default;
};

// The newest snapshot in memory that all ranks of a round have, somewhere.
struct CommonSnapshot {
  struct Holder {
    NodeId node = 0;
    ControlAddress agent = {};
    friend bool operator==(const Holder&, const Holder&) = default;
  };
  int round = 0;  // in which they kept it
  std::uint64_t step = 0;
  std::vector<Holder> holders = {};  // by rank

  friend bool operator==(const CommonSnapshot&, const CommonSnapshot&) = default;
};

// Restarts that still count against their limit.
struct Charge {
  FailureClass kind = FailureClass::error;
  int restarts = 1;   // several only if their limit has no window
  Duration age = {};  // when the record was made

  friend bool operator==(const Charge&, const Charge&) = default;
};

// Starts of the job in a row that ended with the same failure, before any progress.
struct FutileStarts {
  int count = 0;
  std::optional<ExitStatus> failure = {};
  std::string last_line = {};

  friend bool operator==(const FutileStarts&, const FutileStarts&) = default;
};

// A machine on which workers failed too often: no round has it while enough others are there.
struct ExcludedHost {
  std::string name = {};  // its host name
  std::string host = {};  // the address by which the others reach it
  std::string why = {};   // "3 failures there in 1 h"
  Duration left = {};     // until it may take part again

  friend bool operator==(const ExcludedHost&, const ExcludedHost&) = default;
};

// The restart ledger's state, to continue it elsewhere.
struct LedgerRecord {
  RestartCounts counts = {};
  std::vector<Charge> charges = {};  // oldest first
  std::optional<ExitStatus> last_failure = {};
  std::string last_line = {};  // of its stderr: Failure::last_line
  int repeats = 0;             // of that failure, in a row
  bool progressed = false;     // some round of this start has
  Duration running = {};       // with progress, not yet enough to earn a restart back
  FutileStarts futile = {};    // earlier ones
  std::vector<ExcludedHost> excluded = {};
  LearnedTimes learned = {};
  JobAccount account = {};  // of the rounds that were over

  friend bool operator==(const LedgerRecord&, const LedgerRecord&) = default;
};

// The nodes that together elect the coordinator: those of one round.
struct Electorate {
  NodeId coordinator = 0;
  std::vector<NodeId> nodes = {};

  // More than half of them, or exactly half with their coordinator. Two quorums of an electorate have a node in common.
  bool has_quorum(const std::set<NodeId>& present) const;
  friend bool operator==(const Electorate&, const Electorate&) = default;
};

// Identifies a record of the job. The later term is newer, and within a term the later round.
struct RecordId {
  int term = 0;
  int round = 0;

  friend auto operator<=>(const RecordId&, const RecordId&) = default;
};

// How many nodes a round has. Every node has it from its command line (--nnodes), until a user changes it.
struct NodeRange {
  int least = 1, most = 1;

  friend bool operator==(const NodeRange&, const NodeRange&) = default;
};

struct Round {
  int number = 0;                     // the first one is 1
  std::vector<RoundNode> nodes = {};  // by group rank
  std::string master_host = {};       // where group rank 0's store listens
  std::uint16_t master_port = 0;
  LedgerRecord ledger = {};
  int term = 0;            // of the coordinator that formed it; every election begins a new one
  NodeId coordinator = 0;  // always one of the nodes
  // They count, too, until every node has confirmed this round.
  std::vector<Electorate> previous_electorates = {};
  std::optional<NodeRange> resized = {};    // by a user; empty: by nobody
  std::optional<CommonSnapshot> kept = {};  // for seats only: no part of the record

  RecordId id() const { return {term, number}; }
  std::vector<Electorate> electorates() const;  // all that count; this round's first
  int world_size() const { return nodes.empty() ? 0 : nodes.back().first_rank + nodes.back().workers; }
  // Null if the node is not part of this round.
  const RoundNode* find(NodeId id) const {
    for (const RoundNode& node : nodes)
      if (node.id == id) return &node;
    return nullptr;
  }
  int group_rank(NodeId id) const {
    const RoundNode* node = find(id);
    return node ? static_cast<int>(node - nodes.data()) : -1;
  }
};

// The part of a CommonSnapshot that is for one node.
struct SeatSnapshot {
  int round = 0;
  std::uint64_t step = 0;
  std::vector<ControlAddress> from = {};  // by local rank: the agent that has it; without a host: this node has it

  friend bool operator==(const SeatSnapshot&, const SeatSnapshot&) = default;
};

// One node's place in a round: all that its agent needs to start its workers.
struct Seat {
  int round = 0;
  int group_rank = 0, group_world_size = 1;
  int workers = 1;
  int first_rank = 0, world_size = 1;  // the global rank of its local rank 0
  std::string role = "default";
  int first_role_rank = 0, role_world_size = 1;
  std::string master_host = {};
  std::uint16_t master_port = 0;
  int restarts = 0;                 // charged to the job so far, the same on all nodes
  ControlAddress store_agent = {};  // where the agent of group rank 0 listens, which has the store
  LearnedTimes learned = {};        // by earlier rounds
  std::optional<SeatSnapshot> kept = {};
  ControlAddress next_agent = {};  // of the next group rank, or of the first one; without a host: there is no other
};

// By group rank.
std::vector<Seat> seats(const Round& round);

// A record that contains only its id.
std::shared_ptr<const Round> only_id(const RecordId& record);

// A worker's exit that ends its round.
struct Failure {
  int round = 0;
  NodeId node = 0;
  int local_rank = 0;
  int rank = 0;
  ExitStatus status;
  FailureClass kind = FailureClass::clean;  // clean: not known, then the status decides
  std::string host = {};                    // the node's name
  // The last line of its stderr, if it exited with a code and nothing reports its progress: the same line twice is the
  // same failure. Else empty.
  std::string last_line = {};
  std::string how = {};       // of a hang that was found: what it does, and who waits for it
  bool of_all = false;        // as all ranks waited: its machine is no worse than the others
  bool cannot_begin = false;  // its last words say so: before any progress a restart would only repeat it
  std::string place = {};     // of a hang: the innermost line or function of the program's own; empty: not known
};
constexpr std::size_t kLastLineMax = 512;  // bytes

enum class Verdict {
  success,
  worker_failed,
  worker_final,  // it failed, and no restart would help, nor another start of the job
  requeue,       // it failed, and a rule says that the job is to be started again
  stopped,       // a rule ends the job for good, without a worker's failure
  interrupted,
  too_few_nodes,  // no round could be formed in time
  too_few_left,   // no further round could be formed: the job may be started again
  refused,        // this node cannot be part of the job
  out_of_reach,   // this node had no contact to the coordinator for too long
};

// How the job ended, the same on every node.
struct Outcome {
  Verdict verdict = Verdict::success;
  int signal = 0;  // of the interruption
  std::string reason;
  std::optional<Failure> cause;  // the failure that ended the job
  bool late = false;             // this node came after the end
};

}  // namespace ddprun::rendezvous
