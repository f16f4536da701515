// One agent's part in finding the job's coordinator through etcd, and in becoming it.
//
// A value, not a service: it owns no clock and no socket. Give it every event in the order of arrival; carry out its
// actions in order. Whoever creates the coordinator's key, or replaces that of a dead or released coordinator, by a
// transaction that compares both keys' revisions, coordinates. The same transaction adds one to the record's term: of
// two coordinators the second has the later term, and the first can write nothing more. One whose lease has expired
// creates the key again, if the record shows that nobody else has coordinated since.
//
// A coordinator counts its contact with etcd from the time at which it *sent* a renewal and a read that found the key
// to be its own: nobody has replaced the key before that, and it cannot expire before a lease after that. It is in
// charge while that contact, or its contact with *all* nodes of its round, is younger than a node's lease; agents end
// their workers after a node's lease without a coordinator in charge. So a round goes on while etcd does not answer, as
// long as its nodes are together. The next coordinator needs the key, and a sign that the old one is not in charge by
// its nodes: it is one of them and has left it, or one of them has come to it; else it waits until the round has been
// silent for long (EtcdTiming::silent_round). A coordinator that cannot store a round makes way for a node that can
// (EtcdTiming::stand_still).
//
// The key's lease is twice a node's lease and a second, so that etcd's clock may run at twice or half the rate of the
// machines'. (Leases: Gray and Cheriton, 1989; fencing by revisions: etcd's package concurrency, election.go.) Not
// thread-safe.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/server/coordinator_liveness.h"
#include "rendezvous/etcd/etcd_keys.h"

namespace ddprun::rendezvous {

// After so long on any machine's clock, a node that has had no contact since then has ended its workers.
constexpr Duration kEtcdWorkersLimit = kLease + kLeaseMargin;
// Of the coordinator's key. etcd counts in seconds.
constexpr std::chrono::seconds kEtcdKeyLease = 2 * kLease + kLeaseMargin;

// From etcd.
struct KeysRead {  // both, by a read that is linearizable
  EtcdKeys keys;
};
struct HolderSeen {  // by the watch; keys.record is not set
  EtcdKeys keys;
};
struct ClaimAnswered {
  bool won = false;
  EtcdKeys keys = {};  // after the transaction
};
struct RenewalAnswered {
  TimePoint sent_at;   // when the lease's renewal was sent
  bool holds = false;  // the lease was renewed, and a read that was sent then has found the key as it was claimed
};
struct StoreAnswered {
  bool stored = false;               // false: the fence has refused it
  std::int64_t record_revision = 0;  // if it was stored
  std::int64_t fence = 0;            // StoreRecord::fence: an answer may come after another claim
};
enum class EtcdRequest { read, claim, renewal, store };
struct RequestFailed {  // nobody knows whether it was carried out
  EtcdRequest request;
};
// From the connection to the coordinator.
struct HolderConnected {
  NodeId coordinator = 0;
  int term = 0;
};
struct HolderDisconnected {  // an attempt has failed, or the connection
  bool gone = false;         // the process that we were connected to is dead
  TimePoint heard_at = {};   // when any coordinator was last heard from
};
struct SteppedDown {};  // the coordinator here has stopped by itself
// From the coordinator that we follow.
struct RoundSeen {  // this node is in it, or is told of it
  RecordId id;
  int group_rank = -1;  // -1: it is not in it
};
// From the coordinator that runs here: what another one would need now.
struct RecordChanged {
  Round record;
  std::optional<Outcome> over = {};
};
struct EtcdTick {};  // next_deadline() has come
// And NodeGone: a node of LookForNodes, its process is dead.
using EtcdEvent =
    std::variant<KeysRead, HolderSeen, ClaimAnswered, RenewalAnswered, StoreAnswered, RequestFailed, HolderConnected,
                 HolderDisconnected, SteppedDown, RoundSeen, RecordChanged, NodeGone, EtcdTick>;

struct ReadKeys {};
// Puts both keys if they have these revisions; the coordinator's gets a lease of kEtcdKeyLease.
struct ClaimKey {
  std::int64_t holder_revision = 0, record_revision = 0;
  EtcdHolder holder = {};  // without name and places, which the agent adds
  EtcdRecord record = {};
};
struct RenewLease {  // and reads, at the same time, whether the coordinator's key has this revision
  std::int64_t fence = 0;
};
// If both keys have these revisions: one that arrives late changes nothing. Fence 0: the record as it is, while there
// is no coordinator's key; without an answer.
struct StoreRecord {
  std::int64_t fence = 0, record_revision = 0;
  EtcdRecord record = {};
};
struct ReleaseKey {  // puts the holder as released, if the key has this revision; without an answer
  std::int64_t fence = 0;
  EtcdHolder holder = {};
};
struct LeadJob {
  Succession from;
  bool begins = false;  // no coordinator was there before: there is no ledger either
};
struct RecordStored {  // etcd has it: that round may begin
  RecordId id;
};
struct StopLeading {  // another one coordinates, or may
  int term = 0;       // ours
};
struct FollowHolder {  // connect there
  std::vector<ControlAddress> places;
};
// The record's round may run, without a coordinator at etcd: connect to one of its nodes, and probe all until then.
struct LookForNodes {
  std::vector<RoundNode> nodes;  // its coordinator first
};
struct LearnEnd {  // the job's
  Outcome outcome;
};
struct WrongMark {};    // the job that goes on there has other credentials: this agent has no part in it
struct KeysAreGone {};  // the job has rounds, and etcd knows nothing of it: it can go on nowhere
using EtcdAction = std::variant<ReadKeys, ClaimKey, RenewLease, StoreRecord, ReleaseKey, LeadJob, RecordStored,
                                StopLeading, FollowHolder, LookForNodes, LearnEnd, WrongMark, KeysAreGone>;

// When this agent leaves: if the coordinator's key has this revision, it is released, or goes with the job's end.
struct LastAct {
  std::int64_t fence = 0;
  EtcdHolder holder = {};                 // as released
  std::optional<EtcdRecord> record = {};  // of the job that has ended; empty: it goes on
};

struct EtcdTiming {
  Duration renew_every = Duration(kLease) / 3;
  Duration retry_first = std::chrono::milliseconds(250), retry_most = std::chrono::seconds(2);
  Duration read_every = std::chrono::seconds(3);   // without a coordinator, as a watch may be silent
  Duration store_every = std::chrono::seconds(1);  // of the same round's record
  Duration turn_step = std::chrono::milliseconds(2), turn_most = std::chrono::milliseconds(500);  // by group rank
  Duration first_turn = std::chrono::milliseconds(50);        // of a new job: a random part of it
  Duration successor_first = std::chrono::milliseconds(300);  // for the node that the last coordinator has named
  Duration silent_round = std::chrono::seconds(120);          // a newcomer waits for as long; 15 s at least
  Duration stand_still = std::chrono::seconds(20);  // without contact with etcd, while a round waits for its record
};

class EtcdElection {
 public:
  // `host`: EtcdHolder::host of this agent; empty: not known. `mark`: EtcdRecord::mark.
  explicit EtcdElection(NodeId self, std::uint64_t seed = 0, const EtcdTiming& timing = {}, std::string host = {},
                        std::string mark = {});
  std::vector<EtcdAction> on(const EtcdEvent& event, TimePoint now);
  // When EtcdTick is due. It is due at once after construction.
  std::optional<TimePoint> next_deadline() const;

  bool leads() const { return leads_; }
  // When the coordinator here has surely held the key; only while it leads.
  TimePoint contact() const { return lead_.contact; }
  LastAct last_act() const;  // only while it leads
  // etcd names a coordinator that cannot be reached: null: it does not.
  const EtcdHolder* missed() const { return keys_.holder && connection_.to == 0 ? &*keys_.holder : nullptr; }
  // Waits for EtcdTiming::silent_round to be over.
  bool waits_for_silence() const { return silence_.since && connection_.to == 0; }

 private:
  using Actions = std::vector<EtcdAction>;
  Actions handle(const KeysRead& event, TimePoint now);
  Actions handle(const HolderSeen& event, TimePoint now);
  Actions handle(const ClaimAnswered& event, TimePoint now);
  Actions handle(const RenewalAnswered& event, TimePoint now);
  Actions handle(const StoreAnswered& event, TimePoint now);
  Actions handle(const RequestFailed& event, TimePoint now);
  Actions handle(const HolderConnected& event, TimePoint now);
  Actions handle(const HolderDisconnected& event, TimePoint now);
  Actions handle(const SteppedDown& event, TimePoint now);
  Actions handle(const RoundSeen& event, TimePoint now);
  Actions handle(const RecordChanged& event, TimePoint now);
  Actions handle(const NodeGone& event, TimePoint now);
  Actions handle(const EtcdTick& event, TimePoint now);

  bool take(const EtcdKeys& keys);
  Actions decide(TimePoint now);
  Actions decide_as_coordinator(TimePoint now);
  Actions find_coordinator(TimePoint now);
  Actions follow(const EtcdHolder& holder);
  Actions look_for_round(TimePoint now);
  Actions vouch_for_round(TimePoint now);
  bool vouches() const;
  Actions claim(int term, TimePoint now);
  Actions lead(TimePoint now);
  Actions reclaim(TimePoint now);
  Actions stop_leading(TimePoint now);
  EtcdRecord next_record(int term) const;
  TimePoint workers_until(TimePoint now) const;
  bool is_ours() const;          // the holder is this agent, by a claim that still counts
  bool may_be_taken() const;     // the coordinator's key
  bool is_of_this_host() const;  // the holder that we look for
  bool is_member() const;        // of the record's round
  bool awaits_silence(TimePoint now) const;
  bool is_of_others() const;  // the record's round, which may run
  bool stands_still(TimePoint now) const;
  bool has_ended() const;  // the job
  Duration turn();         // by rank, so that few of many read the record
  Duration turn_by_record();
  Duration retry_pause();
  Duration random_part_of(Duration most);

  const NodeId self_;
  const std::string host_, mark_;
  std::uint64_t random_;
  const EtcdTiming timing_;
  EtcdKeys keys_;
  int older_ = 0;                     // answers in a row that are older than keys_
  bool known_ = false;                // keys_ have been read, and no request that changes them is unclear
  bool record_is_old_ = false;        // keys_.record: a coordinator may have written another one
  std::optional<EtcdRequest> asked_;  // read, claim or renewal: under way
  TimePoint next_ = {};               // when the next one is due
  int failures_ = 0;                  // in a row
  bool replaces_ = false;             // the claim under way: a holder's key, which had not expired
  bool was_released_ = false;         // by its holder
  TimePoint claimed_at_ = {};
  std::optional<TimePoint> turn_at_;        // when we claim
  bool has_met_job_ = false;                // somebody coordinated it
  bool over_ = false;                       // nothing is to be done any more
  struct Connection {                       // to the coordinator
    NodeId to = 0, last = 0, going_to = 0;  // last: that we were connected to; 0: we look for another one
    NodeId gone = 0;                        // its process is dead
    int term = 0;                           // of the coordinator that we followed last
    TimePoint heard_at = {};
  } connection_;
  struct Silence {  // of a round that may run
    std::optional<TimePoint> since = {};
    std::set<NodeId> dead = {};              // of its nodes
    std::optional<TimePoint> vouch_at = {};  // for the round that we are in
  } silence_;
  RecordId newest_;  // that this node has seen; round 0: none
  int group_rank_ = -1;
  bool leads_ = false;
  struct Lead {                                               // as coordinator
    std::int64_t fence = 0, released = 0, storing_fence = 0;  // revisions of the coordinator's key
    int term = 0;
    TimePoint contact = {};
    std::optional<EtcdRecord> newest_record = {}, to_store = {}, storing = {};
    std::optional<TimePoint> round_waits_since = {};  // for its record
    TimePoint store_at = {};
    RecordId stored = {};
  } lead_;
};

}  // namespace ddprun::rendezvous
