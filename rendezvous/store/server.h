// Serves a store over TCP, in PyTorch's TCPStore protocol, from a loop and a thread of its own. It serves other nodes'
// workers over one connection per node, from their store proxies (store_proxy.h).
//
// The thread is its own so that a busy store does not delay the agent's loop, nor the agent the store. A slow, silent
// or hostile peer costs only itself: see ServerLimits. Peers are never looked up by name. Every descriptor is closed on
// exec, and the thread blocks all signals, as the agent handles them.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/released_peer.h"
#include "rendezvous/store/protocol.h"
#include "rendezvous/store/server_limits.h"

namespace ddprun::rendezvous {

class Mailbox;

// Takes the connections of other nodes' proxies from agents: a handle, usable from any thread, also after the server's
// end.
class StoreGateway {
 public:
  // From now on the store serves it. It is closed when it fails, or the server ends or has ended.
  void serve(ReleasedPeer peer) const;

 private:
  friend class Server;
  std::shared_ptr<Mailbox> mailbox_;
  std::function<void(ReleasedPeer)> admit_;  // in the server's thread
};

class Server {
 public:
  struct Options {
    std::string address = {};       // numeric; empty: every address of this machine, IPv6 and IPv4
    std::uint16_t port = 0;         // 0: any free one
    PortRange ports = {};           // or one of these
    std::uint16_t port_before = 0;  // the last one used: prefers another one
    ServerLimits limits = {};
    // Of processes on this machine, accepts only our own user's and root's (same_user.h). Those elsewhere can still
    // reach it if it listens on more than loopback.
    bool own_user_only = true;
    // Called in the server's thread: "refused a client on this machine: its process belongs to user 1001, ours to
    // 1000". Empty: writes to stderr.
    std::function<void(const std::string& line)> log = {};
    bool begins_later = false;  // listens, and has no thread before begin()
  };
  // Listens when it returns. Throws Error if the port is not available, or no thread.
  explicit Server(const Options& options);
  // Closes all connections at once and waits for no peer.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;
  // With Options::begins_later: can be read when there is something to do. Then call begin() in the thread that made
  // the server; a second call does nothing. Empty, or why there can be no thread: try again.
  int ready_fd() const;
  [[nodiscard]] std::string begin();
  StoreGateway gateway() const;
  // Connected proxies of other nodes, and their requests so far: as sent, and for how many clients. From any thread.
  struct LinkCounts {
    std::size_t links = 0;
    std::uint64_t requests = 0, requesters = 0;
  };
  LinkCounts link_counts() const;
  // From any thread.
  struct Counts {
    std::array<std::uint64_t, kOpCount> requests = {};  // so far, by Op
    std::size_t connections = 0;                        // now, without those of proxies
  };
  Counts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
