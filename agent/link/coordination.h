// An agent's connection to its job's coordinator: in the same process if the job has one node, else over the network.
// Over the network it has a thread of its own, which answers the coordinator and beats while the agent's loop stands.
//
// Handlers may run inside start() and send(). For the thread of the io_context.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "agent/etcd/etcd_access.h"
#include "agent/process/worker_fence.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/wire/control_message.h"
#include "rendezvous/peer/link_dialer.h"
#include "rendezvous/peer/resolver.h"
#include "rendezvous/peer/tls_context.h"
#include "rendezvous/store/proxy/store_links.h"

namespace ddprun::agent {

// Where and how the nodes of a job meet.
struct Meeting {
  // The agent listens at the first one that is this machine's and whose port is free. The job's first coordinator is
  // the agent at places[0].
  std::vector<rendezvous::ControlAddress> places;
  std::vector<rendezvous::Locality> whose = {};  // of each place
  bool translated = false;           // the first one is this machine's, but its address is not: others translate it
  std::string address_problem = {};  // of the places: "192.168.1.250 is not an address of node7"; empty: none
  bool others_may_host = false;      // if no such port is free, other agents of this machine have them
  std::uint16_t control_port = 0;    // where an agent without such a place listens; 0: any free port
  std::string run_id;
  std::string name;  // of this machine, for messages
  rendezvous::Fingerprint fingerprint;
  rendezvous::Credentials credentials = {};
  rendezvous::NodeId instead_of = 0;            // this agent's node id in an earlier job that could not continue
  std::shared_ptr<const EtcdAccess> etcd = {};  // the coordinator is found there, and there are no places; null: none
  std::string address = {};  // by which the others reach this node; empty: that by which it reaches etcd
};

class Coordination {
 public:
  struct Hooks {
    std::function<void()> on_connected;  // send NodeReady, or NodeBack with a round's workers
    std::function<void(const rendezvous::ToAgent&)> on_message;
    std::function<void()> on_isolated;  // Isolated, agent/round/events.h
    // Called repeatedly while the coordinator is out of reach. `certain`: not merely because its answer is late.
    // `when`: an attempt has failed; the loop may come to it later.
    std::function<void(const std::string& why, bool certain, TimePoint when)> on_unreachable;
    // The job cannot continue here: no coordinator is elected. `certain`: nor elsewhere, as far as this node knows.
    std::function<void(const std::string& why, bool certain)> on_no_coordinator;
    std::function<void(const std::string& line)> log;  // from any thread
    // Somebody who is no agent asks this one something.
    std::function<void(const std::string& line, std::function<void(const std::string&)> answer)> on_request = {};
    // The job's restart ledger has changed, and the coordinator runs here; null: the job goes on. From any thread.
    std::function<void(const rendezvous::LedgerRecord&, const rendezvous::Outcome*)> on_ledger = {};
    // Another agent sends or wants copies of snapshots. Empty: such connections are closed.
    std::function<void(rendezvous::ReleasedPeer)> on_copies = {};
    // Ends the workers before on_isolated, if the loop stands. Must outlive the Coordination.
    WorkerFence* fence = nullptr;
  };
  virtual ~Coordination() = default;
  virtual void start() = 0;
  virtual bool send(const rendezvous::FromAgent& message) = 0;  // false: out of reach
  virtual bool connected() const = 0;
  // Closes the connection, and makes none for that long; on one node nothing.
  virtual void cut(Duration time) = 0;
  virtual rendezvous::NodeId node() const = 0;
  // With --store-proxy only. offer_store() serves the round's store to the other nodes' proxies; dial_store() connects
  // this node's proxy to it until the dialer is destroyed.
  virtual void offer_store(int round, const rendezvous::StoreGateway& store) = 0;
  virtual std::unique_ptr<rendezvous::StoreDialer> dial_store(const rendezvous::Seat& seat,
                                                              const rendezvous::StoreUpstream& proxy) = 0;
  // Connects to that agent for copies of snapshots, until the dialer is destroyed. Null: the job has one node.
  virtual std::unique_ptr<rendezvous::LinkDialer> dial_copies(const rendezvous::ControlAddress& agent,
                                                              rendezvous::LinkDialer::Hooks hooks) = 0;
  // All others know the job's end that this agent was told, or it cannot tell them. Until then it takes part in
  // elections and should not leave.
  virtual bool may_leave() const = 0;
  // The job is over here: no handler is called any more. A coordinator that runs here goes on for the others.
  virtual void leave() = 0;
  // After leave(): whether all others have left, too. Waits at most `most`.
  virtual bool all_left(std::chrono::milliseconds most) = 0;
};

std::unique_ptr<Coordination> make_local_coordination(asio::io_context& io, const rendezvous::RoundPolicy& policy,
                                                      Coordination::Hooks hooks);
// Throws Error if a port cannot be listened on, the credentials cannot be used, or there can be no further thread.
std::unique_ptr<Coordination> make_remote_coordination(asio::io_context& io, const rendezvous::RoundPolicy& policy,
                                                       const Meeting& meeting, Coordination::Hooks hooks);

}  // namespace ddprun::agent
