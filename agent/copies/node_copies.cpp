#include "agent/copies/node_copies.h"

#include <algorithm>
#include <map>
#include <utility>

#include <asio/post.hpp>

namespace ddprun::agent {
namespace {

constexpr std::chrono::milliseconds kFirstLookEvery{200};  // until a worker has kept a snapshot with copy
constexpr std::chrono::seconds kRedialAfter{1}, kThreadRetry{1};
constexpr std::size_t kHeldMax = 1 << 15;  // of a message

const char* const kHere = "this node";

}  // namespace

NodeCopies::NodeCopies(asio::io_context& io, CopyMemory memory, Hooks hooks)
    : io_(io), memory_(std::move(memory)), hooks_(std::move(hooks)), timer_(io), thread_timer_(io) {}

std::vector<rendezvous::HeldSnapshot> NodeCopies::held() const {
  std::vector<rendezvous::HeldSnapshot> out;
  if (!memory_.wanted()) return out;
  for (const CopyMemory::Kept& kept : memory_.kept())
    out.push_back({static_cast<int>(kept.label.rank), static_cast<int>(kept.label.world_size),
                   static_cast<int>(kept.label.round), kept.label.step});
  out.resize(std::min(out.size(), kHeldMax));
  return out;
}

template <class Function>
auto NodeCopies::while_alive(Function function) {
  return [alive = std::weak_ptr<const int>(alive_), function = std::move(function)](auto&&... arguments) {
    if (!alive.expired()) function(std::forward<decltype(arguments)>(arguments)...);
  };
}

// A handler from the exchange's thread.
template <class Function>
void NodeCopies::post(Function function) {
  asio::post(io_, while_alive(std::move(function)));
}

void NodeCopies::take_seat(const rendezvous::Seat& seat) {
  timer_.cancel();
  neighbour_dialer_.reset();
  sources_.clear();
  round_ = seat.round;
  awaited_ = 0;
  kept_.reset();
  if (seat.kept) kept_ = CopyMemory::Stamp{static_cast<std::uint64_t>(seat.kept->round), seat.kept->step};
  if (exchange_) exchange_->begin(round_, kept_);
  if (!kept_) return;
  std::map<std::pair<std::string, std::uint16_t>, std::vector<Wanted>> wanted;
  for (int place = 0; place < seat.workers; ++place) {
    const auto rank = static_cast<std::uint64_t>(seat.first_rank) + static_cast<std::uint64_t>(place);
    const CopyLabel label{kept_->round, kept_->step, rank, static_cast<std::uint64_t>(seat.world_size)};
    const rendezvous::ControlAddress& from = seat.kept->from.at(static_cast<std::size_t>(place));
    if (!memory_.has_own(place, label)) wanted[{from.host, from.port}].push_back({place, label});
  }
  awaited_ = static_cast<int>(wanted.size());
  for (const auto& [from, of_agent] : wanted)
    if (from.first.empty())
      exchange().copy_here(round_, of_agent);
    else
      fetch_from({from.first, from.second}, of_agent);
}

// Created in the middle of a round it knows that round.
CopyExchange& NodeCopies::exchange() {
  if (exchange_) return *exchange_;
  exchange_ = std::make_unique<CopyExchange>(
      memory_, CopyExchange::Hooks{
                   [this](int round, const std::string& agent, const std::string& why) {
                     post([this, round, agent, why] { on_fetched(round, agent, why); });
                   },
                   [this](int round) {
                     post([this, round] {
                       if (round == round_ && round != refused_in_) dial_neighbour(kRedialAfter);
                     });
                   },
                   [this](int round) { post([this, round] { on_refused(round); }); },
                   [this](const std::string& line) { hooks_.print("ddprun: copies of snapshots: " + line + ".\n"); }});
  exchange_->begin(round_, kept_);
  start_exchange();
  return *exchange_;
}

// A limit of threads may be reached for a moment.
void NodeCopies::start_exchange() {
  const std::string refused = exchange_->start();
  if (refused.empty()) return;
  if (!std::exchange(told_of_thread_, true))
    hooks_.print("ddprun: copies of snapshots wait: " + refused + "; it tries again every second.\n");
  thread_timer_.expires_after(kThreadRetry);
  thread_timer_.async_wait(while_alive([this](const asio::error_code& error) {
    if (!error) start_exchange();
  }));
}

void NodeCopies::fetch_from(const rendezvous::ControlAddress& agent, const std::vector<Wanted>& wanted) {
  exchange();
  const auto fetch = [this, round = round_, agent, wanted](rendezvous::ReleasedPeer peer) {
    exchange().fetch(round, agent.host, wanted, std::move(peer));
  };
  const auto failed = [this, round = round_, agent](const std::string& why) { on_fetched(round, agent.host, why); };
  sources_.push_back(hooks_.dial(agent, {while_alive(fetch), while_alive(failed)}));
}

void NodeCopies::on_fetched(int round, const std::string& agent, const std::string& why) {
  if (round != round_ || awaited_ == 0) return;
  if (!why.empty())
    hooks_.print("ddprun: a rank's snapshot of step " + std::to_string(kept_->step) + " in memory cannot be had from " +
                 (agent.empty() ? kHere : agent) + ": " + why + ". Its worker starts without it.\n");
  if (--awaited_ == 0) hooks_.on_ready(round);
}

void NodeCopies::begin_round(const rendezvous::Seat& seat) {
  ranks_ = {static_cast<std::uint64_t>(seat.round), static_cast<std::uint64_t>(seat.first_rank),
            static_cast<std::uint64_t>(seat.world_size), !seat.next_agent.host.empty()};
  neighbour_ = seat.next_agent;
  memory_.begin_round(ranks_, kept_);
  if (ranks_.has_neighbour) look_for_snapshots();
}

void NodeCopies::look_for_snapshots() {
  if (memory_.wanted()) return dial_neighbour({});
  timer_.expires_after(kFirstLookEvery);
  timer_.async_wait(while_alive([this](const asio::error_code& error) {
    if (!error) look_for_snapshots();
  }));
}

void NodeCopies::dial_neighbour(Duration pause) {
  if (pause != Duration::zero()) {
    timer_.expires_after(pause);
    return timer_.async_wait(while_alive([this](const asio::error_code& error) {
      if (!error) dial_neighbour({});
    }));
  }
  exchange();
  const auto linked = [this, round = round_](rendezvous::ReleasedPeer peer) {
    if (round != round_) return;
    memory_.set_neighbour(true);
    exchange().copy_to(ranks_, std::move(peer));
  };
  const auto failed = [this, round = round_](const std::string&) {
    if (round != round_) return;
    memory_.set_neighbour(false);  // no worker waits for its copies
    dial_neighbour(kRedialAfter);
  };
  neighbour_dialer_ = hooks_.dial(neighbour_, {while_alive(linked), while_alive(failed)});
}

// Its node has fewer workers, or less memory for them.
void NodeCopies::on_refused(int round) {
  if (round != round_) return;
  memory_.set_neighbour(false);
  timer_.cancel();
  refused_in_ = round;
  if (!std::exchange(warned_, true))
    hooks_.print(
        "ddprun: the next node, " + neighbour_.host +
        ", has no room for copies of this node's snapshots: its --memory-snapshots is smaller, or it has fewer "
        "workers. This node's ranks go on without copies there.\n");
}

void NodeCopies::add_caller(rendezvous::ReleasedPeer peer) { exchange().add_caller(std::move(peer)); }

}  // namespace ddprun::agent
