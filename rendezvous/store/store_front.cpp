#include "rendezvous/store/store_front.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>

namespace ddprun::rendezvous {
namespace {

constexpr int kAcceptsPerTurn = 8;  // each costs some 15 us, and clients wait
// Without free descriptors or memory, new connections stay in the kernel's queue; we try again this often.
constexpr std::chrono::milliseconds kAcceptPause{50};
constexpr ClientId kListener = 0;  // its tag in the poller

bool out_of_resources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

// For a log line once a minute: all complaints come from the same address, so they are told apart by their text.
PeerSource source_by(const std::string& complaint) {
  const std::size_t hash = std::hash<std::string>()(complaint);
  PeerSource source;
  for (std::size_t i = 0; i < sizeof hash; ++i) source.network[i] = static_cast<std::uint8_t>(hash >> (8 * i));
  return source;
}

}  // namespace

StoreFront::StoreFront(const Listening& listening, bool own_user_only, const ServerLimits& limits,
                       MemoryBudget& under_way, Poller& poller, Hooks hooks)
    : poller_(poller), hooks_(std::move(hooks)), listener_(listening.fd), host_{limits, hooks_.on_request, under_way} {
  if (own_user_only) same_user_.emplace();
  filter_.emplace(listener_.get(), AdmissionLimits{});
  poller_.add(listener_.get(), EPOLLIN, kListener);
}

void StoreFront::on_ready(const epoll_event& event) {
  const ClientId id = event.data.u64;
  if (id == kListener) return accept_some();
  Client* const client = find(id);
  if (!client) return;  // removed earlier in this turn
  touch(id, *client);
  attempt(id, *client, [&](Connection& connection) {
    connection.on_ready(event.events);
    report_end(id, connection);  // before the next one is served
  });
}

void StoreFront::accept_some() {
  if (!listener_) return;
  if (std::exchange(accept_again_, kNever) != kNever) poller_.change(listener_.get(), EPOLLIN, kListener);
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int fd = accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && would_block(errno)) break;
    if (fd < 0 && out_of_resources(errno)) return pause_accepting();
    if (fd >= 0) admit(Fd(fd), source_of(from));
  }
}

void StoreFront::pause_accepting() {
  poller_.change(listener_.get(), 0, kListener);
  accept_again_ = Clock::now() + kAcceptPause;
}

void StoreFront::refuse(const std::string& complaint) {
  const auto line = refusals_.refused(source_by(complaint), "a client on this machine", complaint, Clock::now());
  if (line) hooks_.log(*line);
}

void StoreFront::admit(Fd socket, const PeerSource& source) try {
  if (filter_ && filter_->blocks(source)) return;
  if (clients_.size() >= host_.limits.connections_max) return;
  if (!same_user_) return add_client(std::move(socket), source);
  const SameUser::Finding peer = same_user_->check_peer(socket.get());
  if (peer.gone) return;
  if (!peer.complaint.empty()) return refuse(peer.complaint);
  add_client(std::move(socket), peer.on_this_machine ? std::nullopt : std::optional(source));
} catch (const std::exception& error) {
  hooks_.log(std::string("refused a client: ") + error.what());
}

void StoreFront::add_client(Fd socket, const std::optional<PeerSource>& counted) {
  if (unvalidated_.size() >= host_.limits.unvalidated_max) {
    const ClientId oldest = unvalidated_.begin()->first;
    on_failed(oldest);
    remove(oldest);
  }
  const ClientId id = next_id_++;
  const int fd = socket.get();
  Client& client = clients_.try_emplace(id, id, std::move(socket), host_).first->second;
  attempt(id, client, [&](Connection&) {
    unvalidated_.emplace(id, counted);
    poller_.add(fd, client.awaited, id);
    update(id, client);
  });
}

StoreFront::Client* StoreFront::find(ClientId id) {
  if (last_found_.second && last_found_.first == id) return last_found_.second;
  const auto found = clients_.find(id);
  if (found == clients_.end()) return nullptr;
  last_found_ = {id, &found->second};
  return last_found_.second;
}

void StoreFront::touch(ClientId id, Client& client) {
  if (client.touched) return;
  touched_.push_back(id);
  client.touched = true;
}

// An error with one client, even out of memory, must not affect the others.
template <class Step>
void StoreFront::attempt(ClientId id, Client& client, Step step) try {
  step(client.connection);
} catch (const std::exception& error) {
  hooks_.log(std::string("dropped a client: ") + error.what());
  remove(id);
}

void StoreFront::report_end(ClientId id, const Connection& connection) {
  if (connection.closed())
    hooks_.on_closed(id);
  else if (connection.input_closed())
    hooks_.on_input_closed(id);
}

void StoreFront::send(ClientId to, const Reply& reply) {
  Client* const client = find(to);
  if (!client) return;
  touch(to, *client);
  client->connection.send(reply);
}

void StoreFront::send(ClientId to, const Value& bytes) {
  Client* const client = find(to);
  if (!client) return;
  touch(to, *client);
  client->connection.send(bytes);
}

void StoreFront::hold(ClientId id) {
  if (Client* const client = find(id)) client->connection.hold();
}

void StoreFront::resume(ClientId id) {
  Client* const client = find(id);
  if (!client) return;
  touch(id, *client);
  attempt(id, *client, [&](Connection& connection) {
    connection.resume();
    report_end(id, connection);
  });
}

void StoreFront::close_after_output(ClientId id) {
  Client* const client = find(id);
  if (!client) return;
  touch(id, *client);
  client->connection.close_after_output();
  report_end(id, client->connection);
}

// First reads everything, then writes everything: each half of the kernel's path stays in the cache.
void StoreFront::finish_turn() {
  for (const ClientId id : touched_)
    if (const auto found = clients_.find(id); found != clients_.end())
      attempt(id, found->second, [&](Connection& connection) {
        connection.flush();
        update(id, found->second);
      });
  touched_.clear();
  if (!deadlines_.empty()) remove_expired();
  if (accept_again_ != kNever && accept_again_ <= Clock::now()) accept_some();
  if (filter_ && filter_->next_deadline() != kNever) filter_->unblock_expired(Clock::now());
}

// After all calls into a connection: updates its events and deadline, or removes it.
void StoreFront::update(ClientId id, Client& client) {
  Connection& connection = client.connection;
  client.touched = false;
  if (connection.close_if_out_of_memory()) log_out_of_memory(CloseConnection::Why::too_much_under_way, host_.memory);
  if (connection.closed()) {
    if (!connection.validated() && !connection.received_nothing()) on_failed(id);
    return remove(id);
  }
  if (connection.awaited() != client.awaited) {
    client.awaited = connection.awaited();
    poller_.change(connection.fd(), client.awaited, id);
  }
  if (connection.deadline() == client.deadline) return;
  if (connection.validated()) on_validated(id);
  deadlines_.erase({client.deadline, id});
  client.deadline = connection.deadline();
  if (client.deadline != kNever) deadlines_.emplace(client.deadline, id);
}

void StoreFront::remove(ClientId id) {
  hooks_.on_closed(id);
  unvalidated_.erase(id);
  const auto found = clients_.find(id);
  deadlines_.erase({found->second.deadline, id});
  poller_.remove(found->second.connection.fd());
  if (last_found_.second == &found->second) last_found_ = {};
  clients_.erase(found);
}

void StoreFront::on_validated(ClientId id) {
  const auto found = unvalidated_.find(id);
  if (found == unvalidated_.end()) return;
  if (filter_ && found->second) filter_->on_success(*found->second);
  unvalidated_.erase(found);
}

void StoreFront::on_failed(ClientId id) {
  const auto found = unvalidated_.find(id);
  if (filter_ && found != unvalidated_.end() && found->second) filter_->on_failure(*found->second, Clock::now());
}

void StoreFront::log_out_of_memory(CloseConnection::Why why, const MemoryBudget& memory) {
  const bool full = why == CloseConnection::Why::store_full;
  const std::string complaint = std::string(full ? "keys and queues" : "requests and replies in flight") +
                                " use all the memory they may, " + std::to_string(memory.max() >> 20) +
                                " MiB (--store-memory)";
  if (const auto line = refusals_.refused(source_by(full ? "full" : "under way"), "a client", complaint, Clock::now()))
    hooks_.log(*line);
}

void StoreFront::remove_expired() {
  for (const TimePoint now = Clock::now(); !deadlines_.empty() && deadlines_.begin()->first <= now;) {
    const ClientId expired = deadlines_.begin()->second;
    on_failed(expired);
    remove(expired);
  }
}

TimePoint StoreFront::next_deadline() const {
  return std::min({deadlines_.empty() ? kNever : deadlines_.begin()->first, accept_again_,
                   filter_ ? filter_->next_deadline() : kNever});
}

void StoreFront::close() {
  if (listener_) poller_.remove(listener_.get());
  filter_.reset();
  listener_.reset();
  accept_again_ = kNever;
  while (!clients_.empty()) remove(clients_.begin()->first);
}

}  // namespace ddprun::rendezvous
