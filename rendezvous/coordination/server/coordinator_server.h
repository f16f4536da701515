// An agent's control port: other agents connect, authenticate, and send their requests. At the job's coordinator they
// stay connected; elsewhere they are told where it is, ask for votes, or announce that they have been elected.
//
// While it leads, agents' messages go to the Coordinator, and its orders go to them. A node is lost when its connection
// closes, it sends nothing for the lease, or its loop has stood for the loop limit. Its workers count as dead once its
// agent's port refuses connections, or once the lease and a second are over, by which time it has ended them itself.
// The server stops leading when it has had no contact to a quorum for the lease, when it hands over, and when an agent
// knows a later round than it does. If it begins a job, and has formed no round yet, it waits instead: the agent that
// knows a round may be all that is left of its job.
//
// It has its own thread, so that neither handshakes nor a thousand agents delay this node's supervisor.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/server/coordinator_liveness.h"
#include "rendezvous/coordination/wire/control_message.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/peer_connection.h"
#include "rendezvous/store/server.h"

namespace ddprun::rendezvous {

class CoordinatorServer {
 public:
  struct Options {
    Listening listening;  // from open_listener(); takes ownership
    PeerTrust trust;      // with an instance of its own
    Fingerprint fingerprint;
    RoundPolicy policy;
    std::optional<NodeId> self = {};  // the agent's; empty: it coordinates without being a node
    Duration lease = kLease, loop_limit = kLoopLimit;
    std::function<void(const std::string& line)> log = {};
    // Another agent stands for election; answer from any thread.
    std::function<void(const VoteRequest&, std::function<void(const Vote&)> answer)> on_vote_request = {};
    // Another agent says that it coordinates.
    std::function<void(const CoordinatorAnnouncement&, const ControlAddress& coordinator)> on_announcement = {};
    // Somebody who is no agent asks this one something; answer from any thread.
    std::function<void(const std::string& line, std::function<void(const std::string&)> answer)> on_request = {};
    // The job's restart ledger has changed while we lead; null: the job goes on.
    std::function<void(const LedgerRecord&, const Outcome*)> on_ledger = {};
    // Another agent sends or wants copies of snapshots. Empty: such connections are closed.
    std::function<void(ReleasedPeer)> on_copies = {};
    // By which other hosts reach this one; empty: by the addresses at which they do.
    std::string reached_by = {};
    // With RoundPolicy::record_outside: CoordinatorOrders' on_record, and when this coordinator was surely in charge
    // by what that place has answered, from any thread.
    std::function<void(const Round&, const Outcome*)> on_record = {};
    std::function<TimePoint()> outside_contact = {};
    std::function<void()> on_stepped_down = {};  // it has stopped leading by itself
  };
  // All handlers are called from our thread.
  explicit CoordinatorServer(Options options);
  ~CoordinatorServer();  // at once

  // From any thread, each carried out in order.
  void lead();                                                      // a job's first coordinator; it may lead already
  void lead(const Succession& succession, TimePoint requested_at);  // elected: no voter has followed anyone else since
  // Sent to agents that look for the coordinator. Ends leading.
  void refer_to(int term, const std::optional<ControlAddress>& coordinator);
  // That place has this record now, and no later one.
  void record_stored(const RecordId& record);
  // The newest round that our agent has seen, for those who look for the coordinator.
  void set_newest(const RecordId& newest);
  // The job is over, for all: sent to agents that look for the coordinator.
  void set_job_end(const Outcome& outcome);

  // When it led last: now, if it does. Its own agent may not have heard from it.
  TimePoint led_at() const;

  void add_listener(const Listening& listening);  // from open_listener(); takes ownership

  // Other nodes' proxies that ask for this round's store get it; those that ask for an older one do not.
  void offer_store(int round, const StoreGateway& store);

  // Waits until all agents have closed their connections, after the news of the job's end or of another coordinator,
  // and until those lost before that are dead; false after a time-out.
  bool wait_until_left(std::chrono::milliseconds most);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
