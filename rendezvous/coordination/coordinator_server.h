// An agent's control port: other agents connect, prove who they are, and say what they want. Where the job's
// coordinator is, they stay connected; elsewhere they are told where it is, ask for votes, or tell that they have been
// elected.
//
// While it leads, what agents say goes to the Coordinator, its orders go to them. A node whose connection closes, or
// that gives no sign of life for the lease, is lost: its workers are taken for dead once nobody listens any more where
// its agent did, or the lease and a second are over, by which time it has ended them itself. It stops leading when it
// has had no contact to a quorum for the lease, when it hands over, and when an agent knows a later round than it does.
// One that begins a job, and has formed no round yet, waits instead: whoever knows a round may be all that is left of
// it.
//
// A thread of its own runs it, so that neither handshakes nor a thousand agents hold up the supervisor of this node.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/coordination/control_message.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/coordinator_liveness.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/peer_connection.h"
#include "rendezvous/store/server.h"

namespace ddprun::rendezvous {

class CoordinatorServer {
 public:
  struct Options {
    Listening listening;  // of open_listener(), ours from now on
    PeerTrust trust;      // with an instance of its own
    Fingerprint fingerprint;
    RoundPolicy policy;
    std::optional<NodeId> self = {};  // the agent's; empty: this one coordinates without being a node
    Duration lease = kLease;
    std::function<void(const std::string& line)> log = {};
    // Another agent stands for election; to be answered, from any thread.
    std::function<void(const VoteRequest&, std::function<void(const Vote&)> answer)> on_vote_request = {};
    // Another agent says that it coordinates.
    std::function<void(const CoordinatorCall&, const ControlAddress& caller)> on_call = {};
  };
  // All handlers are called from our thread.
  explicit CoordinatorServer(Options options);
  ~CoordinatorServer();  // at once

  // From any thread, each carried out in order.
  void lead();                                                  // a job's first coordinator; it may lead already
  void lead(const Succession& succession, TimePoint asked_at);  // elected: who voted has followed nobody else since
  // Whoever looks for the coordinator is told so. Ends leading.
  void refer_to(int term, const std::optional<ControlAddress>& coordinator);
  // The newest round that our agent has seen, for those who look for the coordinator.
  void knows(const RecordId& newest);
  // The job is over, for all: so is told who looks for the coordinator.
  void knows_end(const Outcome& outcome);

  void listen_also(const Listening& listening);  // as well; of open_listener(), ours from now on

  // Proxies of other nodes that come for that round's store get it; of an older one they do not.
  void offer_store(int round, const StoreGateway& store);

  // Waits until every agent, told of the job's end or of another coordinator, has closed its connection, and those that
  // were lost before they had been told are dead; false where that takes longer.
  bool wait_until_left(std::chrono::milliseconds most);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
