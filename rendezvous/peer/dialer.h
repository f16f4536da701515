// Connects to another agent: looks its host up, tries its addresses (connector.h), and authenticates both sides.
//
// A time limit runs on after the connection is handed over, until stop(): the answer to the first message counts too.
//
// For the thread of its io_context. Hooks never run inside a call of ours, nor after stop() or our end; they may end
// us.
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
    ControlAddress place;
    Duration pause = {};                     // before it begins
    std::optional<TimePoint> deadline = {};  // of everything; empty: kAnswerLimit from the TCP connection on
  };
  using Failure = Connector::Failure;
  struct Hooks {
    std::function<void(PeerConnection)> on_connected;
    std::function<void(const Failure&)> on_failed;  // once, also where the time is over after on_connected
  };
  // `names` empty: a resolver of its own. `trust` must outlive it.
  Dialer(asio::io_context& io, std::shared_ptr<Resolver> names, const PeerTrust& trust, Hooks hooks);

  // Ends what was under way.
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
  asio::steady_timer timer_;  // of the pause, then of the limit
  std::optional<PeerConnection> connection_;
  std::shared_ptr<const int> waiting_;  // a timer's handler that is queued already when it is stopped finds it gone
};

}  // namespace ddprun::rendezvous
