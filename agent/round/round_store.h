// A round's store on this node: its own, or a proxy to the store of another node.
//
// For the thread of the io_context; hooks are called there except `print`. No hook is called after close().
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "agent/link/coordination.h"
#include "agent/round/round_options.h"
#include "rendezvous/coordination/round/round.h"
#include "rendezvous/store/proxy/store_proxy.h"
#include "rendezvous/store/server.h"

namespace ddprun::agent {

class RoundStore {
 public:
  struct Hooks {
    std::function<void(const std::string& line)> print;  // from any thread: "refused a client on this machine: ..."
    // The proxy lost the round's store a lease ago.
    std::function<void(int round, const std::string& why)> on_lost;
  };
  // `options` must outlive it.
  RoundStore(asio::io_context& io, const RoundOptions& options, Hooks hooks);

  // A fresh one for every round: the protocol carries no round number, so only the port separates two rounds. Throws
  // Error if no port can be bound.
  void open();
  void close();
  // Where it is reached through the agents, before the round is confirmed, so that no worker waits for it. A lost store
  // disconnects all its clients; the coordinator decides what happens to the round.
  void open_proxy(const rendezvous::Seat& seat, Coordination& coordination);
  // Of this store and the earlier ones on this node.
  rendezvous::Server::Counts counts() const;
  // Of our own, for other nodes; 0: they reach it through the agents.
  std::uint16_t port() const { return store_ && !options_.store_through_agents ? store_->port() : std::uint16_t{0}; }
  bool is_through_agents(const rendezvous::Seat& seat) const {
    return options_.several_nodes && (options_.store_proxy || seat.master_port == 0);
  }
  // The seat with the store's address for the workers.
  rendezvous::Seat seat_for_workers(rendezvous::Seat seat) const;

 private:
  bool begins_with_first_client() const;
  void await_first_client();
  void begin();
  void lost(int round, const std::string& why);

  asio::io_context& io_;
  const RoundOptions& options_;
  const Hooks hooks_;
  asio::steady_timer timer_, lost_timer_;
  std::uint16_t last_port_ = 0;
  rendezvous::Server::Counts earlier_ = {};                     // requests to stores that are closed
  std::unique_ptr<rendezvous::Server> store_;                   // of the current or the next round
  std::optional<asio::posix::stream_descriptor> first_client_;  // can be read when it has come
  bool told_of_thread_ = false;
  std::unique_ptr<rendezvous::StoreProxy> proxy_;  // to the round's store on another node
  std::unique_ptr<rendezvous::StoreDialer> dialer_;
};

}  // namespace ddprun::agent
