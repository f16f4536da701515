// What an agent sends to others' control ports in an election: requests for votes and, once elected, announcements.
//
// One connection for each, made for the purpose. An unreachable node gets one request, but an announcement is repeated
// for `kAnnounceFor`, as the node may be reachable later; to an address of the job's rendezvous endpoint it is repeated
// forever, as a node may restart there and take itself for the first.
//
// The record's standbys get their requests first. The others follow once half of the standbys have granted their vote,
// or after a moment if no more have refused than granted: so only one of many candidates sends requests to a thousand
// nodes.
//
// For the thread of its io_context; handlers are never called inside a function of ours, nor after our destruction.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/coordination/wire/control_message.h"
#include "rendezvous/peer/peer_connection.h"
#include "rendezvous/peer/resolver.h"

namespace ddprun::rendezvous {

constexpr std::chrono::seconds kAnnounceFor{60};

class ElectionRpc {
 public:
  using OnVote = std::function<void(NodeId voter, const Vote& vote)>;
  // The node's port refuses connections, or another agent has it.
  using OnDead = std::function<void(NodeId node)>;
  ElectionRpc(asio::io_context& io, std::shared_ptr<Resolver> names, PeerTrust trust, OnVote on_vote,
              OnDead on_dead = {});
  ~ElectionRpc();  // closes all connections

  // Sent to all nodes of the request's record except the candidate. Ends earlier announcements.
  void request_votes(const VoteRequest& request);
  // Sent to all nodes of that record, and to these addresses.
  void announce(const CoordinatorAnnouncement& announcement, const std::vector<ControlAddress>& always);
  void close_all();

 private:
  class Connection;
  using Text = std::shared_ptr<const std::string>;  // encoded once for all
  void send(const RoundNode& node, const Text& text, bool again);
  void count_vote(NodeId voter, const Vote& vote);
  void request_other_votes();

  asio::io_context& io_;
  std::shared_ptr<Resolver> names_;
  PeerTrust trust_;
  OnVote on_vote_, on_any_vote_;
  OnDead on_dead_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<RoundNode> others_;  // no request was sent to them yet
  Text others_text_;
  asio::steady_timer others_timer_;
  std::size_t granted_ = 0, refused_ = 0;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // expired for handlers still queued at destruction
};

}  // namespace ddprun::rendezvous
