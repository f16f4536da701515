// Connects to a host and port: looks the host up, then tries its addresses in turn, each with its own time limit.
//
// For the thread of its io_context. Hooks are never called inside a function of ours, nor after stop() or our
// destruction; they may destroy us.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/peer/control_address.h"
#include "rendezvous/peer/resolver.h"

namespace ddprun::rendezvous {

class Connector {
 public:
  struct Failure {
    std::string why;       // "no such host: Name or service not known"
    bool refused = false;  // nobody listens there
  };
  struct Hooks {
    std::function<void(asio::ip::tcp::socket)> on_connected;  // the socket is closed on exec
    std::function<void(const Failure&)> on_failed;            // once
  };
  Connector(asio::io_context& io, std::shared_ptr<Resolver> names, Hooks hooks);
  ~Connector() = default;

  // Cancels an attempt in progress.
  void start(const ControlAddress& address);
  void stop();

 private:
  void connect(std::size_t nth);
  void next(std::size_t tried, const std::error_code& error);
  void fail(const Failure& failure);
  template <class Function>
  auto guarded(Function function);

  std::shared_ptr<Resolver> names_;
  Hooks hooks_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer limit_;
  std::uint16_t port_ = 0;
  std::vector<Address> addresses_;
  std::shared_ptr<const int> attempt_;  // expired for handlers of an older one
};

}  // namespace ddprun::rendezvous
