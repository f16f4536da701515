// The store of a round as the workers of one node see it: a store on loopback, in PyTorch's TCPStore protocol, that
// forwards to the real one over one connection to that one's agent. docs/internals/store-proxy.md says what for.
//
// Each client's requests reach the store in its order and get the same bytes as answers; what several clients wait for
// or read at the same moment is sent once (request_merger.h). A client's lost connection ends its wait. If the
// connection to the store is lost, all clients and the listener are closed: a round does not continue without its
// store.
//
// It has its own loop and thread, as the store (server.h): no client can delay the supervisor. Every descriptor is
// closed on exec, and the thread blocks all signals.
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

// Takes the connection to the store: a handle, usable from any thread, also after the proxy's end.
class StoreUpstream {
 public:
  // Once; a second one is closed.
  void connected(ReleasedPeer store) const;
  // There will be none. Closes the clients, and passes the reason to on_lost.
  void failed(const std::string& why) const;

 private:
  friend class StoreProxy;
  std::shared_ptr<Mailbox> mailbox_;
  std::function<void(ReleasedPeer)> connect_;  // both run in the proxy's thread
  std::function<void(const std::string&)> fail_;
};

class StoreProxy {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // numeric
    std::uint16_t port = 0;             // 0: any free one
    ServerLimits limits = {};
    ProxyLimits proxy_limits = {};
    bool own_user_only = true;  // same_user.h
    // Called in the proxy's thread, once: the store is lost, "the other side closed the connection".
    std::function<void(const std::string& why)> on_lost = {};
    // Called in the proxy's thread: "refused a client on this machine: its process belongs to user 1001, ddprun's to
    // 1000". Empty: writes to stderr.
    std::function<void(const std::string& line)> log = {};
  };
  // Listens when it returns; clients' requests wait for the store. Throws Error if the port is not available.
  explicit StoreProxy(const Options& options);
  // Closes everything at once and waits for no peer.
  ~StoreProxy();
  StoreProxy(const StoreProxy&) = delete;
  StoreProxy& operator=(const StoreProxy&) = delete;

  std::uint16_t port() const;
  // Empty: it serves. Else why it has no thread yet, and clients wait: call it again, in the thread that made it.
  [[nodiscard]] std::string begin();
  StoreUpstream upstream() const;
  // Clients' requests so far, and how many of them were sent. From any thread.
  struct Counts {
    std::uint64_t requests = 0, sent = 0;
  };
  Counts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
