// Serves a store over TCP, in PyTorch's TCPStore protocol, from a loop and a thread of its own; and to other nodes'
// workers over one connection per node, as their store proxies ask for them (store_proxy.h).
//
// Of its own, because the agent's loop must go on however busy the store is; and the other way round. A slow, silent,
// deaf or hostile peer costs only itself: see ServerLimits. Peers are never looked up by name. Every descriptor is
// closed on exec, and the thread blocks all signals, which are the agent's to handle.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/released_peer.h"
#include "rendezvous/store/server_limits.h"

namespace ddprun::rendezvous {

class Mailbox;

// Where agents hand in the connections of other nodes' proxies: a handle, from any thread, also when the server has
// ended.
class StoreGateway {
 public:
  // From now on the store serves it. It is closed when it is of no use, or the server ends or has ended.
  void serve(ReleasedPeer peer) const;

 private:
  friend class Server;
  std::shared_ptr<Mailbox> mailbox_;
  std::function<void(ReleasedPeer)> admit_;  // in the server's thread
};

class Server {
 public:
  struct Options {
    std::string address = {};       // a numeric one; empty: every address of this machine, IPv6 and IPv4
    std::uint16_t port = 0;         // 0: any free one
    PortRange ports = {};           // or one of these
    std::uint16_t port_before = 0;  // taken last, so that another one is taken now where there is one
    ServerLimits limits = {};
    // Of the processes on this machine those of our own user and root's alone (same_user.h); others reach it all the
    // same from elsewhere, where it listens on more than loopback.
    bool own_user_only = true;
    // In the server's thread: "refused a client on this machine: its process belongs to user 1001, ours to 1000".
    // Empty: to stderr.
    std::function<void(const std::string& line)> say = {};
  };
  // Listens when it returns. Throws Error where the port cannot be had.
  explicit Server(const Options& options);
  // At once, whatever the peers do: their connections are closed, nothing is waited for.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;
  StoreGateway gateway() const;
  // Other nodes' proxies that are connected, and what they asked so far: requests as they travelled, and for how many
  // clients. From any thread.
  struct LinkCounts {
    std::size_t links = 0;
    std::uint64_t requests = 0, askers = 0;
  };
  LinkCounts link_counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
