// Accepts TCP connections, closed on exec, until it is destroyed.
//
// Without free descriptors or memory, new connections wait in the kernel's queue for a moment. For the thread of its
// io_context; calls no handler after its destruction.
#pragma once
#include <functional>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

namespace ddprun::rendezvous {

class Acceptor {
 public:
  // Takes ownership of `fd`, from open_listener().
  Acceptor(asio::io_context& io, int fd, std::function<void(asio::ip::tcp::socket)> on_accepted);

 private:
  void wait_for_connections();
  void accept_some();
  void pause();

  asio::io_context& io_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer retry_timer_;
  std::function<void(asio::ip::tcp::socket)> on_accepted_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // expired for handlers still queued at destruction
};

}  // namespace ddprun::rendezvous
