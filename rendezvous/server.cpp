#include "rendezvous/server.h"

#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/connection.h"
#include "rendezvous/listen_socket.h"
#include "rendezvous/poller.h"
#include "rendezvous/signals_blocked.h"
#include "rendezvous/store.h"

namespace ddprun {
namespace {

constexpr int kAcceptsPerTurn = 64;
// Out of descriptors or memory, newcomers stay in the kernel's queue and we look again so often.
constexpr std::chrono::milliseconds kAcceptPause{50};
constexpr ClientId kListener = 0;  // as a tag; clients count from 1
constexpr TimePoint kNever = TimePoint::max();

bool out_of_resources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

bool none_left(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

// A client, and what the loop knows of it.
struct Client {
  Client(ClientId id, Fd socket, ConnectionHost& host) : connection(id, std::move(socket), host) {}
  Connection connection;
  std::uint32_t awaited = EPOLLIN;
  TimePoint deadline = kNever;
  bool touched = false;
};

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const Options& options);
  ~Impl();
  std::uint16_t port() const { return listening_.port; }

 private:
  void run();
  void turn();
  void accept_some();
  void pause_accepting();
  void admit(Fd socket);
  void serve(ClientId id, std::uint32_t events);
  void answer(ClientId from, Request request);
  void touch(ClientId id, Client& client);
  void settle_all();
  template <class Step>
  void attempt(ClientId id, Client& client, Step step);
  void settle(ClientId id, Client& client);
  void remove(ClientId id);
  void remove_the_late();

  const Listening listening_;
  const Fd listener_{listening_.fd};
  Poller poller_;
  TimePoint accept_again_ = kNever;
  ConnectionHost host_;
  Store store_;
  ClientId next_id_ = kListener + 1;
  std::unordered_map<ClientId, Client> clients_;
  std::set<ClientId> unvalidated_;                      // oldest first: ids grow
  std::set<std::pair<TimePoint, ClientId>> deadlines_;  // of the few that have one
  Client* served_ = nullptr;
  std::vector<ClientId> touched_;  // in this turn: to be flushed and settled
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

Server::Impl::Impl(const Options& options)
    : listening_(open_listener(options.address, options.port)),
      host_{options.limits, [this](ClientId id, Request request) { answer(id, std::move(request)); }} {
  poller_.add(listener_.get(), EPOLLIN, kListener);
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

Server::Impl::~Impl() {
  stopping_ = true;
  poller_.wake();
  thread_.join();
}

void Server::Impl::run() {
  pthread_setname_np(pthread_self(), "ddprun-store");
  while (!stopping_) try {
      turn();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "ddprun: the store goes on after an internal error: %s\n", error.what());
    }
}

void Server::Impl::turn() {
  const TimePoint first_deadline = deadlines_.empty() ? kNever : deadlines_.begin()->first;
  for (const epoll_event event : poller_.wait(std::min(first_deadline, accept_again_)))
    if (event.data.u64 == kListener)
      accept_some();
    else
      serve(event.data.u64, event.events);
  settle_all();
  if (!deadlines_.empty()) remove_the_late();
  if (accept_again_ != kNever && accept_again_ <= Clock::now()) accept_some();
}

void Server::Impl::accept_some() {
  if (std::exchange(accept_again_, kNever) != kNever) poller_.change(listener_.get(), EPOLLIN, kListener);
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && none_left(errno)) break;
    if (fd < 0 && out_of_resources(errno)) return pause_accepting();
    if (fd >= 0) admit(Fd(fd));
  }
}

void Server::Impl::pause_accepting() {
  poller_.change(listener_.get(), 0, kListener);
  accept_again_ = Clock::now() + kAcceptPause;
}

void Server::Impl::admit(Fd socket) try {
  if (clients_.size() >= host_.limits.connections_max) return;
  if (unvalidated_.size() >= host_.limits.unvalidated_max) remove(*unvalidated_.begin());
  const ClientId id = next_id_++;
  const int fd = socket.get();
  Client& client = clients_.try_emplace(id, id, std::move(socket), host_).first->second;
  attempt(id, client, [&](Connection&) {
    unvalidated_.insert(id);
    poller_.add(fd, client.awaited, id);
    settle(id, client);
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "ddprun: the store turns a client away: %s\n", error.what());
}

void Server::Impl::serve(ClientId id, std::uint32_t events) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;  // removed earlier in this turn
  served_ = &found->second;
  touch(id, *served_);
  attempt(id, *served_, [&](Connection& connection) {
    connection.on_ready(events);
    if (connection.input_over() || connection.over()) store_.forget(id);  // before the next one is served
  });
}

// Whatever goes wrong with one client, memory included, must not reach the others.
template <class Step>
void Server::Impl::attempt(ClientId id, Client& client, Step step) try {
  step(client.connection);
} catch (const std::exception& error) {
  std::fprintf(stderr, "ddprun: the store drops a client: %s\n", error.what());
  remove(id);
}

void Server::Impl::answer(ClientId from, Request request) {
  for (const Answer& answer : store_.on(from, std::move(request))) {
    if (answer.to == from) {
      served_->connection.send(answer.reply);
    } else if (const auto to = clients_.find(answer.to); to != clients_.end()) {
      touch(answer.to, to->second);
      to->second.connection.send(answer.reply);
    }
  }
}

void Server::Impl::touch(ClientId id, Client& client) {
  if (client.touched) return;
  touched_.push_back(id);
  client.touched = true;
}

// First all is read, then all is written: each half of the way through the kernel stays warm.
void Server::Impl::settle_all() {
  for (const ClientId id : touched_)
    if (const auto found = clients_.find(id); found != clients_.end())
      attempt(id, found->second, [&](Connection& connection) {
        connection.flush();
        settle(id, found->second);
      });
  touched_.clear();
}

// After all calls into a connection: what it awaits now, until when, and whether it is still there.
void Server::Impl::settle(ClientId id, Client& client) {
  const Connection& connection = client.connection;
  client.touched = false;
  if (connection.over()) return remove(id);
  if (connection.awaited() != client.awaited) {
    client.awaited = connection.awaited();
    poller_.change(connection.fd(), client.awaited, id);
  }
  if (connection.deadline() == client.deadline) return;
  if (connection.validated()) unvalidated_.erase(id);
  deadlines_.erase({client.deadline, id});
  client.deadline = connection.deadline();
  if (client.deadline != kNever) deadlines_.emplace(client.deadline, id);
}

void Server::Impl::remove(ClientId id) {
  store_.forget(id);
  unvalidated_.erase(id);
  const auto found = clients_.find(id);
  deadlines_.erase({found->second.deadline, id});
  poller_.remove(found->second.connection.fd());
  clients_.erase(found);
}

void Server::Impl::remove_the_late() {
  for (const TimePoint now = Clock::now(); !deadlines_.empty() && deadlines_.begin()->first <= now;)
    remove(deadlines_.begin()->second);
}

Server::Server(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return impl_->port(); }

}  // namespace ddprun
