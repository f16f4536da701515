// The store of a round as the workers of one node see it: a store on loopback, in PyTorch's TCPStore protocol, that has
// the real one behind it, over one connection to the agent where that lives. docs/store-proxy.md says what for.
//
// Each client's requests reach the store in its order and are answered by the same bytes; what several clients wait for
// or read in the same moment travels once (request_merger.h). A client's lost connection ends its wait. Where the
// connection to the store is lost, so are all clients, and nobody listens any more: a round does not go on without its
// store.
//
// From a loop and a thread of its own, as the store itself (server.h): no client can hold up the supervisor. Every
// descriptor is closed on exec, and the thread blocks all signals.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/store/peer_stream.h"
#include "rendezvous/store/proxy/proxy_limits.h"
#include "rendezvous/store/server_limits.h"

namespace ddprun::rendezvous {

class Mailbox;

// Where the connection to the store is handed in: a handle, from any thread, also when the proxy has ended.
class StoreUpstream {
 public:
  // Once; a second one is closed.
  void connected(ReleasedPeer store) const;
  // There will be none. The clients are closed, and on_lost is told why.
  void failed(const std::string& why) const;

 private:
  friend class StoreProxy;
  std::shared_ptr<Mailbox> mailbox_;
  std::function<void(ReleasedPeer)> connect_;  // these in the proxy's thread
  std::function<void(const std::string&)> lose_;
};

class StoreProxy {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // numeric
    std::uint16_t port = 0;             // 0: any free one
    ServerLimits limits = {};
    ProxyLimits proxy_limits = {};
    bool own_user_only = true;  // same_user.h
    // In the proxy's thread, once: the store is out of reach, "the other side closed the connection".
    std::function<void(const std::string& why)> on_lost = {};
    // In the proxy's thread: "refused a client on this machine: its process belongs to user 1001, ours to 1000". Empty:
    // to stderr.
    std::function<void(const std::string& line)> say = {};
  };
  // Listens when it returns; clients' requests wait for the store. Throws Error where the port cannot be had.
  explicit StoreProxy(const Options& options);
  // At once, whatever clients and store do.
  ~StoreProxy();
  StoreProxy(const StoreProxy&) = delete;
  StoreProxy& operator=(const StoreProxy&) = delete;

  std::uint16_t port() const;
  StoreUpstream upstream() const;
  // Requests of clients so far, and how many of them travelled. From any thread.
  struct Counts {
    std::uint64_t asked = 0, sent = 0;
  };
  Counts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
