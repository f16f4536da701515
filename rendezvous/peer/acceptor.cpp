#include "rendezvous/peer/acceptor.h"

#include <sys/socket.h>

#include <cerrno>

#include "rendezvous/base/fd.h"

namespace ddprun::rendezvous {
namespace {

using asio::ip::tcp;

constexpr int kAcceptsPerTurn = 8;  // then other handlers have their turn: earlier peers authenticate first
constexpr std::chrono::milliseconds kRetryPause{50};

bool out_of_resources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

Acceptor::Acceptor(asio::io_context& io, int fd, std::function<void(tcp::socket)> on_accepted)
    : io_(io), acceptor_(io, tcp::v6(), fd), retry_timer_(io), on_accepted_(std::move(on_accepted)) {
  acceptor_.native_non_blocking(true);
  wait_for_connections();
}

void Acceptor::wait_for_connections() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) accept_some();
  });
}

void Acceptor::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    // Not Asio's accept: it cannot set close-on-exec before another thread may exec.
    Fd fd(accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && would_block(errno)) break;
    if (!fd && out_of_resources(errno)) return pause();
    if (!fd) continue;
    tcp::socket socket(io_);
    std::error_code failed;
    socket.assign(tcp::v6(), fd.get(), failed);  // its family does not matter here
    if (failed) continue;
    fd.release();
    on_accepted_(std::move(socket));
  }
  wait_for_connections();
}

void Acceptor::pause() {
  retry_timer_.expires_after(kRetryPause);
  retry_timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) accept_some();
  });
}

}  // namespace ddprun::rendezvous
