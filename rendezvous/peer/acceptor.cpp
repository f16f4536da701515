#include "rendezvous/peer/acceptor.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace ddprun {
namespace {

using asio::ip::tcp;

constexpr int kAcceptsPerTurn = 8;  // then others in the loop have their turn: who came before proves itself first
constexpr std::chrono::milliseconds kPause{50};

bool out_of_resources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

bool none_left(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

Acceptor::Acceptor(asio::io_context& io, int fd, std::function<void(tcp::socket)> on_accepted)
    : io_(io), acceptor_(io, tcp::v6(), fd), again_(io), on_accepted_(std::move(on_accepted)) {
  acceptor_.native_non_blocking(true);
  await_newcomers();
}

void Acceptor::await_newcomers() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) accept_some();
  });
}

void Acceptor::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    // Not Asio's accept: it cannot set close-on-exec before another thread may exec.
    const int fd = accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && none_left(errno)) break;
    if (fd < 0 && out_of_resources(errno)) return pause();
    if (fd < 0) continue;
    tcp::socket socket(io_);
    std::error_code error;
    socket.assign(tcp::v6(), fd, error);  // its family is of no consequence here
    if (error)
      ::close(fd);
    else
      on_accepted_(std::move(socket));
  }
  await_newcomers();
}

void Acceptor::pause() {
  again_.expires_after(kPause);
  again_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) accept_some();
  });
}

}  // namespace ddprun
