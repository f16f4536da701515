// A store, and store proxies that reach it as those of other nodes do: over a control listener, each by its own
// authenticated connection. All in this process, over loopback.
#pragma once
#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include "rendezvous/peer/frame.h"
#include "rendezvous/peer/peer_listener.h"
#include "rendezvous/store/proxy/store_links.h"

namespace ddprun::test {

class StoreRig {
 public:
  struct Options {
    rendezvous::Credentials credentials = rendezvous::NoCredentials{};
    std::size_t proxies = 1;
    rendezvous::Server::Options store = {.address = "127.0.0.1"};
    rendezvous::StoreProxy::Options proxy = {};
    bool dial = true;  // else call dial()
  };
  StoreRig() : StoreRig(Options()) {}
  explicit StoreRig(const Options& options);
  ~StoreRig();

  rendezvous::Server& store() { return *store_; }
  rendezvous::StoreProxy& proxy(std::size_t number = 0) { return *proxies_.at(number); }
  std::uint16_t control_port() const { return listener_->port(); }
  // Like the end of a node: its proxy, or the store, is gone.
  void end_proxy(std::size_t number) { proxies_.at(number).reset(); }
  void end_store() { store_.reset(); }
  // Connects the proxy with the store.
  void dial(std::size_t number);

 private:
  struct PendingPeer {
    rendezvous::PeerConnection connection;
    rendezvous::FrameReader reader = {};
    std::array<char, 4096> input = {};
  };
  static constexpr int kRound = 7;

  void accept(rendezvous::PeerConnection connection);
  void read(std::list<PendingPeer>::iterator pending);
  rendezvous::PeerTrust trust(const std::string& name) const;

  const Options options_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::unique_ptr<rendezvous::Server> store_;
  rendezvous::StoreGateway gateway_;
  std::list<PendingPeer> pending_peers_;
  std::unique_ptr<rendezvous::PeerListener> listener_;
  std::vector<std::unique_ptr<rendezvous::StoreProxy>> proxies_;
  std::list<rendezvous::StoreDialer> dialers_;
  std::thread thread_;
};

}  // namespace ddprun::test
