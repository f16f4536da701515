// The copies of snapshots in memory on one node: the memory that its workers share, and the exchange of copies with
// other agents (copies/copy_exchange.h).
//
// For the thread of the io_context; hooks are called there except `print`. No thread is started before a worker keeps a
// snapshot with copy, or another agent sends or wants one.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/copies/copy_exchange.h"
#include "rendezvous/coordination/round/round.h"
#include "rendezvous/memory/copy_memory.h"
#include "rendezvous/peer/link_dialer.h"

namespace ddprun::agent {

class NodeCopies {
 public:
  using LinkHooks = rendezvous::LinkDialer::Hooks;
  struct Hooks {
    // Null: there are no other nodes.
    std::function<std::unique_ptr<rendezvous::LinkDialer>(const rendezvous::ControlAddress& agent, LinkHooks)> dial;
    std::function<void(int round)> on_ready;
    std::function<void(const std::string& line)> print;  // from any thread
  };
  NodeCopies(asio::io_context& io, CopyMemory memory, Hooks hooks);

  int fd() const { return memory_.fd(); }
  // No worker may run.
  std::vector<rendezvous::HeldSnapshot> held() const;
  // Fetches what this node's ranks lack; on_ready follows unless it is ready at once. What cannot be fetched is
  // printed.
  void take_seat(const rendezvous::Seat& seat);
  bool ready(int round) const { return round_ == round && awaited_ == 0; }
  // Before the round's workers start.
  void begin_round(const rendezvous::Seat& seat);
  void add_caller(rendezvous::ReleasedPeer peer);

 private:
  using Wanted = CopyExchange::Wanted;
  CopyExchange& exchange();
  void start_exchange();
  void fetch_from(const rendezvous::ControlAddress& agent, const std::vector<Wanted>& wanted);
  void on_fetched(int round, const std::string& agent, const std::string& why);
  void look_for_snapshots();
  void dial_neighbour(Duration pause);
  void on_refused(int round);
  template <class Function>
  auto while_alive(Function function);
  template <class Function>
  void post(Function function);

  asio::io_context& io_;
  CopyMemory memory_;
  const Hooks hooks_;
  int round_ = 0, awaited_ = 0;
  std::optional<CopyMemory::Stamp> kept_;
  CopyMemory::Round ranks_;
  rendezvous::ControlAddress neighbour_;
  int refused_in_ = 0;  // the last round in which the next node had no room
  bool warned_ = false, told_of_thread_ = false;
  asio::steady_timer timer_, thread_timer_;
  std::vector<std::unique_ptr<rendezvous::LinkDialer>> sources_;
  std::unique_ptr<rendezvous::LinkDialer> neighbour_dialer_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();
  std::unique_ptr<CopyExchange> exchange_;
};

}  // namespace ddprun::agent
