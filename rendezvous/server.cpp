#include "rendezvous/server.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/connection.h"
#include "rendezvous/listen_socket.h"
#include "rendezvous/signals_blocked.h"
#include "rendezvous/store.h"

namespace ddprun {
namespace {

using asio::ip::tcp;

constexpr int kAcceptsPerTurn = 64;
// Out of descriptors or memory, newcomers stay in the kernel's queue and we look again so often.
constexpr std::chrono::milliseconds kAcceptPause{50};

bool out_of_resources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

bool none_left(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const Options& options);
  ~Impl();
  std::uint16_t port() const { return port_; }

 private:
  void run();
  void await_newcomers();
  void accept_some();
  void pause_accepting();
  void admit(int fd);
  void drop(ClientId id);
  void answer(ClientId from, Request request);
  void flush();
  void remove(ClientId id);

  asio::io_context io_{1};  // one thread
  tcp::acceptor acceptor_{io_};
  asio::steady_timer accept_again_{io_};
  std::uint16_t port_ = 0;
  ConnectionHost host_;
  Store store_;
  ClientId next_id_ = 1;
  std::unordered_map<ClientId, std::shared_ptr<Connection>> connections_;
  std::set<ClientId> unvalidated_;  // oldest first: ids grow
  std::vector<ClientId> to_flush_;
  std::thread thread_;
};

Server::Impl::Impl(const Options& options)
    : host_{options.limits,
            [this](ClientId id, Request request) { answer(id, std::move(request)); },
            [this](ClientId id) { unvalidated_.erase(id); },
            [this](ClientId id) { store_.forget(id); },
            [this](ClientId id) { remove(id); },
            [this] { flush(); }} {
  const Listening listening = open_listener(options.address, options.port);
  port_ = listening.port;
  acceptor_.assign(tcp::v6(), listening.fd);
  acceptor_.native_non_blocking(true);
  await_newcomers();
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

Server::Impl::~Impl() {
  io_.stop();
  thread_.join();
}

// Asio's own failures come out of run(); the loop goes on with the next handler.
void Server::Impl::run() {
  pthread_setname_np(pthread_self(), "ddprun-store");
  while (!io_.stopped()) try {
      io_.run();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "ddprun: the store goes on after an internal error: %s\n", error.what());
    }
}

void Server::Impl::await_newcomers() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](const std::error_code& error) {
    if (!error) accept_some();
  });
}

void Server::Impl::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    // Not Asio's accept: it cannot set close-on-exec before another thread may exec.
    const int fd = accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && none_left(errno)) break;
    if (fd < 0 && out_of_resources(errno)) return pause_accepting();
    if (fd >= 0) admit(fd);
  }
  await_newcomers();
}

void Server::Impl::pause_accepting() {
  accept_again_.expires_after(kAcceptPause);
  accept_again_.async_wait([this](const std::error_code&) { accept_some(); });
}

void Server::Impl::admit(int fd) try {
  tcp::socket socket(io_);
  std::error_code error;
  socket.assign(tcp::v6(), fd, error);  // its family is of no consequence here
  if (error) ::close(fd);
  if (error || connections_.size() >= host_.limits.connections_max) return;
  if (unvalidated_.size() >= host_.limits.unvalidated_max) drop(*unvalidated_.begin());
  const ClientId id = next_id_++;
  const auto connection = std::make_shared<Connection>(id, std::move(socket), host_);
  connections_.emplace(id, connection);
  unvalidated_.insert(id);
  connection->start();
} catch (const std::exception& error) {
  std::fprintf(stderr, "ddprun: the store turns a client away: %s\n", error.what());
}

void Server::Impl::drop(ClientId id) {
  const auto connection = connections_.at(id);  // it removes itself
  connection->close();
}

void Server::Impl::answer(ClientId from, Request request) {
  for (const Answer& answer : store_.on(from, std::move(request))) {
    const auto to = connections_.find(answer.to);
    if (to == connections_.end()) continue;
    to->second->send(answer.reply);
    to_flush_.push_back(answer.to);
  }
}

void Server::Impl::flush() {
  for (const ClientId id : std::exchange(to_flush_, {}))
    if (const auto found = connections_.find(id); found != connections_.end()) {
      const auto connection = found->second;  // it may remove itself
      connection->flush();
    }
}

void Server::Impl::remove(ClientId id) {
  store_.forget(id);
  unvalidated_.erase(id);
  connections_.erase(id);
}

Server::Server(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return impl_->port(); }

}  // namespace ddprun
