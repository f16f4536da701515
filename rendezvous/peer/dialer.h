// Connects to another agent: looks its host up, tries its addresses (connector.h), and authenticates both sides.
//
// The time limit continues after on_connected, until stop(): it covers the answer to the first message, too.
//
// For the thread of its io_context. Hooks are never called inside a function of ours, nor after stop() or our
// destruction; they may destroy us.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/peer/connector.h"
#include "rendezvous/peer/peer_connection.h"

namespace ddprun::rendezvous {

class Dialer {
 public:
  struct Attempt {
    ControlAddress address;
    Duration pause = {};                     // before it begins
    std::optional<TimePoint> deadline = {};  // for everything; empty: kGreetingLimit from the TCP connection on
  };
  using Failure = Connector::Failure;
  struct Hooks {
    std::function<void(PeerConnection)> on_connected;
    std::function<void(const Failure&)> on_failed;  // once; also for a time-out after on_connected
  };
  // `names` empty: creates its own resolver. `trust` must outlive it.
  Dialer(asio::io_context& io, std::shared_ptr<Resolver> names, const PeerTrust& trust, Hooks hooks);

  // Cancels an attempt in progress.
  void start(const Attempt& attempt);
  void stop();

 private:
  void connect();
  void authenticate(asio::ip::tcp::socket socket);
  void fail(const Failure& failure);
  template <class Function>
  void at(TimePoint time, Function function);

  const PeerTrust& trust_;
  const Hooks hooks_;
  Attempt attempt_;
  Connector connector_;
  asio::steady_timer timer_;  // for the pause, then for the limit
  std::optional<PeerConnection> connection_;
  std::shared_ptr<const int> waiting_;  // expired for a handler already queued when its timer stops
};

}  // namespace ddprun::rendezvous
