#include "rendezvous/coordination/server/election_rpc.h"

#include <algorithm>
#include <string>
#include <utility>

#include <asio/post.hpp>

#include "rendezvous/coordination/wire/control_link.h"
#include "rendezvous/peer/dialer.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::chrono::milliseconds kElectionPauseFirst{100};
constexpr std::chrono::seconds kElectionPauseMost{2};
constexpr std::chrono::milliseconds kStandbysFirst{300};

std::shared_ptr<const std::string> shared_text(const FromAgent& message) {
  return std::make_shared<const std::string>(encode(message));
}

}  // namespace

// The connection to one node or place. It may be destroyed inside its own handlers.
class ElectionRpc::Connection {
 public:
  struct Target {
    ControlAddress place;
    NodeId node = 0;
    bool always = false;
  };
  Connection(asio::io_context& io, const std::shared_ptr<Resolver>& names, const PeerTrust& trust, Target target,
             const OnVote& on_vote, const OnDead& on_dead)
      : io_(io),
        target_(std::move(target)),
        on_vote_(on_vote),
        on_dead_(on_dead),
        dialer_(io, names, trust,
                {[this](PeerConnection connection) { on_connected(std::move(connection)); },
                 [this](const Dialer::Failure& failure) {
                   fail();
                   if (failure.refused) dead();
                 }}) {}
  ~Connection() { close_link(); }

  // Sends the message as soon as the other one listens. `again`: retries until it is sent.
  void send(std::shared_ptr<const std::string> message, bool again) {
    message_ = std::move(message);
    again_ = again;
    began_ = Clock::now();
    if (link_) return link_->send(*message_);
    if (!trying_) dial({});
  }

 private:
  void dial(Duration pause) {
    trying_ = true;
    dialer_.start({target_.place, pause});
  }

  void on_connected(PeerConnection connection) {
    dialer_.stop();
    link_ = std::make_unique<ControlLink>(std::move(connection),
                                          ControlLink::Hooks{[this](const std::string& bytes) { on_message(bytes); },
                                                             [this](const std::string&) { fail(); }});
    link_->send(*message_);
    again_ = target_.always;  // sent; repeats only where another agent may start
  }

  void dead() {
    if (target_.node != 0 && on_dead_) on_dead_(target_.node);
  }

  void on_message(const std::string& bytes) {
    try {
      const auto message = decode_to_agent(bytes);
      const auto* vote = std::get_if<Vote>(&message);
      if (!vote) return;
      if (vote->voter != target_.node) return dead();  // another agent has that address now
      on_vote_(vote->voter, *vote);
    } catch (const BadMessage&) {
      fail();
    }
  }

  void close_link() {
    if (!link_) return;
    link_->close();
    asio::post(io_, [link = std::move(link_)] {});  // we may be in one of its handlers
  }

  void fail() {
    trying_ = false;
    close_link();
    if (!again_ || (!target_.always && Clock::now() - began_ > kAnnounceFor)) return;
    dial(next_pause_);
    next_pause_ = std::min<Duration>(2 * next_pause_, kElectionPauseMost);
  }

  asio::io_context& io_;
  Target target_;
  const OnVote& on_vote_;
  const OnDead& on_dead_;
  Dialer dialer_;
  std::unique_ptr<ControlLink> link_;
  std::shared_ptr<const std::string> message_;  // encoded
  bool again_ = false, trying_ = false;
  TimePoint began_;
  Duration next_pause_ = kElectionPauseFirst;
};

ElectionRpc::ElectionRpc(asio::io_context& io, std::shared_ptr<Resolver> names, PeerTrust trust, OnVote on_vote,
                         OnDead on_dead)
    : io_(io),
      names_(std::move(names)),
      trust_(std::move(trust)),
      on_vote_(std::move(on_vote)),
      on_any_vote_([this](NodeId voter, const Vote& vote) { count_vote(voter, vote); }),
      on_dead_(std::move(on_dead)),
      others_timer_(io) {}

ElectionRpc::~ElectionRpc() = default;

// The whole record goes to those that could take it over; the others vote for its id.
void ElectionRpc::request_votes(const VoteRequest& request) {
  close_all();
  const Text whole = shared_text(request);
  others_text_ = shared_text(VoteRequest{request.term, request.candidate, only_id(request.record->id())});
  const std::vector<RoundNode>& nodes = request.record->nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].id == request.candidate) continue;
    if (i < kStandbys)
      send(nodes[i], whole, false);
    else
      others_.push_back(nodes[i]);
  }
  if (others_.empty()) return;
  others_timer_.expires_after(kStandbysFirst);
  others_timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired() && granted_ >= refused_) request_other_votes();
  });
}

void ElectionRpc::send(const RoundNode& node, const Text& text, bool again) {
  connections_.push_back(std::make_unique<Connection>(
      io_, names_, trust_, Connection::Target{node.control, node.id, false}, on_any_vote_, on_dead_));
  connections_.back()->send(text, again);
}

void ElectionRpc::count_vote(NodeId voter, const Vote& vote) {
  ++(vote.granted ? granted_ : refused_);
  if (2 * granted_ >= std::min(connections_.size(), kStandbys)) request_other_votes();
  on_vote_(voter, vote);
}

void ElectionRpc::request_other_votes() {
  others_timer_.cancel();
  for (const RoundNode& node : std::exchange(others_, {})) send(node, others_text_, false);
}

void ElectionRpc::announce(const CoordinatorAnnouncement& announcement, const std::vector<ControlAddress>& always) {
  const Text text = shared_text(announcement);
  for (const auto& one : connections_) one->send(text, true);
  others_timer_.cancel();
  for (const RoundNode& node : std::exchange(others_, {})) send(node, text, true);
  for (const ControlAddress& place : always) {
    connections_.push_back(
        std::make_unique<Connection>(io_, names_, trust_, Connection::Target{place, 0, true}, on_any_vote_, on_dead_));
    connections_.back()->send(text, true);
  }
}

void ElectionRpc::close_all() {
  connections_.clear();
  others_.clear();
  others_timer_.cancel();
  granted_ = refused_ = 0;
}

}  // namespace ddprun::rendezvous
