// Accepts TCP connections one after the other, each closed on exec, until it ends.
//
// Out of descriptors or memory, newcomers stay in the kernel's queue for a moment. For the thread of its io_context; no
// handler is called once it has ended.
#pragma once
#include <functional>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

namespace ddprun::rendezvous {

class Acceptor {
 public:
  // `fd`: of open_listener(), ours from now on.
  Acceptor(asio::io_context& io, int fd, std::function<void(asio::ip::tcp::socket)> on_accepted);

 private:
  void await_newcomers();
  void accept_some();
  void pause();

  asio::io_context& io_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer again_;
  std::function<void(asio::ip::tcp::socket)> on_accepted_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // what is queued when we end finds it gone
};

}  // namespace ddprun::rendezvous
