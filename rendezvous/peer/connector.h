// A way to a place: looks its host up, then tries one address after the other, each with a limit of its own.
//
// For the thread of its io_context. Hooks never run inside a call of ours, nor after stop() or our end; they may end
// us.
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

  // Ends what was under way.
  void start(const ControlAddress& place);
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
  std::shared_ptr<const int> attempt_;  // what belongs to an older one finds it gone
};

}  // namespace ddprun::rendezvous
