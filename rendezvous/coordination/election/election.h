// One agent's part in electing another coordinator, once the coordinator is gone.
//
// A value, not a service: it owns no clock and no socket. Give it every event in the order of arrival; carry out its
// actions in order. An agent with the whole record of the last round may stand for election. It wins by a quorum of
// every electorate of that record. An agent gives one vote in a term, never while it is connected to a coordinator, and
// never for a record older than its own; with its vote it takes over a newer record. So two coordinators cannot both
// have a quorum of what either was elected by. (Terms and votes: Ongaro and Ousterhout, In Search of an Understandable
// Consensus Algorithm, 2014.) A restarted agent is another node, so nothing has to outlive the process.
//
// If so many of the record's nodes are known to be dead that a quorum is impossible, the agent gives up: its part in
// the job is over, and the record worthless. A coordinator stays one as long as it has contact to a quorum
// (quorum_contact.h). Not thread-safe.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

// A candidate's request.
struct VoteRequest {
  int term = 0;
  NodeId candidate = 0;
  // Shared, as it goes to many, and never null. Non-standbys receive only_id(), as otherwise a thousand records of a
  // thousand nodes would be sent.
  std::shared_ptr<const Round> record = {};
};
struct Vote {
  int term = 0;  // the voter's, so that a candidate with an older one catches up
  bool granted = false;
  Duration heard_age = {};           // time since the voter last heard from a coordinator
  NodeId voter = 0;                  // a restarted agent at the same address is another voter
  std::optional<Outcome> over = {};  // the job's end, for all, if the voter knows it; not used by the election
};

// From the connection to the coordinator.
struct RecordKept {  // before it is confirmed
  RecordId id;
  std::optional<Round> record = {};  // empty: this agent may vote, but not stand
};
struct RoundBegan {  // all nodes have confirmed the record
  int round = 0;
};
struct RecordConfirmed {  // all nodes of its round hold it, and may not have begun
  RecordId id;
  bool ours = false;  // we are one of them
};
struct RecordResized {
  RecordId id;
  NodeRange range;
};
struct CoordinatorConnected {
  int term = 0;  // the coordinator's
};
struct CoordinatorDisconnected {
  bool gone = false;        // its process is dead: it will not return
  TimePoint heard_at = {};  // when it was last heard from
};
struct NodeDead {  // its port refuses connections, or another agent has it
  NodeId node = 0;
};
// From other agents.
struct VoteRequested {
  VoteRequest request;
};
struct VoteGiven {
  NodeId voter = 0;
  Vote vote;
};
struct CoordinatorAnnounced {  // by an agent that says it coordinates
  int term = 0;
};
struct ElectionTick {};  // next_deadline() has come
using ElectionEvent =
    std::variant<RecordKept, RoundBegan, RecordConfirmed, RecordResized, CoordinatorConnected, CoordinatorDisconnected,
                 NodeDead, VoteRequested, VoteGiven, CoordinatorAnnounced, ElectionTick>;

struct AskForVotes {  // all other nodes of the record
  VoteRequest request;
};
struct GiveVote {  // to the candidate that requested it
  Vote vote;
};
struct Lead {  // coordinate the job, and announce that to all nodes of the record
  int term = 0;
  Round record;
  TimePoint requested_at;  // since then no voter has followed anyone else
  // No voter has answered a message that another coordinator sent later, so none had contact to a quorum later.
  TimePoint heard_at;
  Duration record_age = {};  // since we have held it
};
struct Follow {};        // the coordinator that announced itself
struct GiveUp {          // the record's nodes that may live are no quorum: it elects nobody any more
  bool certain = false;  // too many are dead; else the coordinator may live, out of reach
};
using ElectionAction = std::variant<AskForVotes, GiveVote, Lead, Follow, GiveUp>;

struct ElectionTiming {
  // For a broken connection to return; a chosen successor goes first.
  Duration reconnect_grace = std::chrono::milliseconds(100);
  // Between the nodes' candidacies, by rank: the first one mostly wins, if its requests have arrived by then.
  Duration step = std::chrono::milliseconds(30);
  Duration step_per_node = std::chrono::microseconds(250);  // and this much for each node
  Duration turn_max = std::chrono::seconds(5);  // later turns are at a random time after it, within as long again
  Duration vote_timeout = std::chrono::milliseconds(500);
  Duration vote_timeout_per_node = std::chrono::milliseconds(1);  // in addition: connections, handshakes
  // After a failed candidacy: a random part of it, and of twice as much after each further one, so that one of many
  // candidates gets the time it needs.
  Duration pause_max = std::chrono::milliseconds(500);
  // A coordinator that was not heard from for this long is gone; before that, only its connection may have broken.
  Duration absent_after = std::chrono::seconds(5);
};

class Election {
 public:
  explicit Election(NodeId self, std::uint64_t seed = 0, const ElectionTiming& timing = {});
  std::vector<ElectionAction> on(const ElectionEvent& event, TimePoint now);
  // When ElectionTick is due.
  std::optional<TimePoint> next_deadline() const;

  int term() const { return term_; }
  // Whether to follow a coordinator of this term. Our own failed candidacies do not count: nobody followed us.
  bool would_follow(int term) const { return connected_ ? term > followed_ : term >= newest_.term; }
  bool is_connected() const { return connected_; }
  bool is_alone() const;                              // all other nodes of the record are known to be dead
  const RecordId& newest() const { return newest_; }  // of all it has seen; round 0: none
  const std::shared_ptr<const Round>& record() const { return record_; }  // null: none is held

 private:
  using Actions = std::vector<ElectionAction>;
  struct Candidacy {
    std::shared_ptr<const Round> record;
    std::vector<Electorate> electorates;  // the record's
    std::set<NodeId> votes;
    TimePoint requested_at, heard_at;
  };

  Actions handle(const RecordKept& event, TimePoint now);
  Actions handle(const RoundBegan& event, TimePoint now);
  Actions handle(const RecordConfirmed& event, TimePoint now);
  Actions handle(const RecordResized& event, TimePoint now);
  Actions handle(const CoordinatorConnected& event, TimePoint now);
  Actions handle(const CoordinatorDisconnected& event, TimePoint now);
  Actions handle(const NodeDead& event, TimePoint now);
  Actions handle(const VoteRequested& event, TimePoint now);
  Actions handle(const VoteGiven& event, TimePoint now);
  Actions handle(const CoordinatorAnnounced& event, TimePoint now);
  Actions handle(const ElectionTick& event, TimePoint now);

  void forget_earlier_electorates();
  bool may_vote_for(const VoteRequest& request) const;
  bool has_vote_in(const Round& record) const;
  bool can_win(bool without_coordinator) const;
  bool is_absent(TimePoint now) const;
  Actions give_up();
  bool is_successor() const;
  Duration successor_retry() const;
  Duration turn_delay();
  void back_off(TimePoint now);
  Duration pause();
  Vote vote(bool granted, TimePoint now) const;
  Duration random_part_of(Duration most);
  Actions start_candidacy(TimePoint now);
  Actions count_votes(TimePoint now);

  NodeId self_;
  std::uint64_t random_;
  ElectionTiming timing_;
  int term_ = 0;
  int followed_ = 0;                 // the term of the coordinator that we are, or were last, connected to
  std::optional<NodeId> voted_for_;  // in this term
  RecordId newest_;
  std::shared_ptr<const Round> record_;  // the newest one; null: none is held
  TimePoint record_since_ = {};
  bool connected_ = false;
  TimePoint heard_at_ = {};  // when any coordinator was last heard from
  bool begun_ = false;       // all have confirmed that record: its coordinator has led
  bool gone_ = false;        // the last coordinator is dead
  std::set<NodeId> dead_;    // nodes of the record
  std::optional<Candidacy> candidacy_;
  std::optional<TimePoint> next_try_;
  TimePoint back_off_until_ = {};  // a candidate, or we, may be winning: no event makes us stand earlier
  int failed_tries_ = 0;           // failed candidacies since we were connected
};

}  // namespace ddprun::rendezvous
