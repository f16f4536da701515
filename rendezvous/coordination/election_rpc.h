// What an agent says to many others' control ports in an election: asks for their votes, then, elected, calls them.
//
// One connection for each, made for the purpose. Whoever cannot be reached is asked once, but called again and again
// for `kCallAgainFor`, as it may be out of reach for a time; a place of the job's rendezvous endpoint for ever, as a
// node may start there anew and take itself for the first.
//
// The record's standbys are asked first, the others once half of those have given their vote, or after a moment in
// which not more have refused it than given: of many candidates only one then asks a thousand nodes.
//
// For the thread of its io_context; no handler runs inside a call of ours, nor after our end.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/coordination/control_message.h"
#include "rendezvous/peer/peer_connection.h"
#include "rendezvous/peer/resolver.h"

namespace ddprun::rendezvous {

constexpr std::chrono::seconds kCallAgainFor{60};

class ElectionRpc {
 public:
  using OnVote = std::function<void(NodeId voter, const Vote& vote)>;
  // Nobody listens any more where that node did, or another agent does.
  using OnDead = std::function<void(NodeId node)>;
  ElectionRpc(asio::io_context& io, std::shared_ptr<Resolver> names, PeerTrust trust, OnVote on_vote,
              OnDead on_dead = {});
  ~ElectionRpc();  // hangs up

  // All nodes of the request's record but the candidate. Ends what was before.
  void ask(const VoteRequest& request);
  // Who has been asked, and these places.
  void call(const CoordinatorCall& call, const std::vector<ControlAddress>& always);
  void hang_up();

 private:
  class Call;
  using Text = std::shared_ptr<const std::string>;  // encoded once for all
  void say(const RoundNode& node, const Text& text, bool again);
  void hear(NodeId voter, const Vote& vote);
  void ask_others();

  asio::io_context& io_;
  std::shared_ptr<Resolver> names_;
  PeerTrust trust_;
  OnVote on_vote_, on_any_vote_;
  OnDead on_dead_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<RoundNode> others_;  // not asked yet
  Text others_text_;
  asio::steady_timer others_in_;
  std::size_t granted_ = 0, refused_ = 0;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // what is queued when we end finds it gone
};

}  // namespace ddprun::rendezvous
