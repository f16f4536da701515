// Connects a store with the store proxies of other nodes, over connections that agents have authenticated.
//
// For the thread of their io_context or executor; server and proxy have threads of their own.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "rendezvous/peer/link_dialer.h"
#include "rendezvous/store/proxy/store_proxy.h"
#include "rendezvous/store/server.h"

namespace ddprun::rendezvous {

// The store's side. `connection`: authenticated, and its first message was parse_store_opening()'s; nothing was read
// after that. It gets the welcome and then belongs to the store.
void serve_store(PeerConnection connection, const StoreGateway& store);

// The proxy's side: finds the agent that has the store, and gives the connection to the proxy; after the time limit it
// tells the proxy that it failed.
class StoreDialer {
 public:
  struct Options {
    std::string host = {};  // the control port of the store's agent; a name, or a numeric address
    std::uint16_t port = 0;
    int round = 0;
    PeerTrust trust = {};
    Duration within = std::chrono::seconds(10);
    std::shared_ptr<Resolver> names = {};  // empty: its own
  };
  // Destruction cancels it; connections already given to the proxy stay.
  StoreDialer(asio::io_context& io, const Options& options, const StoreUpstream& proxy);

 private:
  LinkDialer dialer_;
};

}  // namespace ddprun::rendezvous
