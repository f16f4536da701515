// Serves a store over TCP, in PyTorch's TCPStore protocol, from a loop and a thread of its own.
//
// Of its own, because the agent's loop must go on however busy the store is; and the other way round. A slow, silent,
// deaf or hostile peer costs only itself: see ServerLimits. Peers are never looked up by name. Every descriptor is
// closed on exec, and the thread blocks all signals, which are the agent's to handle.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "rendezvous/server_limits.h"

namespace ddprun {

class Server {
 public:
  struct Options {
    std::string address = {};  // a numeric one; empty: every address of this machine, IPv6 and IPv4
    std::uint16_t port = 0;    // 0: any free one
    ServerLimits limits = {};
  };
  // Listens when it returns. Throws Error where the port cannot be had.
  explicit Server(const Options& options);
  // At once, whatever the peers do: their connections are closed, nothing is waited for.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
