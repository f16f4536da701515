// The clients' side of a store: a listening socket, and a connection for each client that enforces the protocol and the
// limits. The hooks answer the requests: by the store itself (server.h), or by one on another node (store_proxy.h).
//
// Replies of one turn of the loop are sent at its end, in finish_turn(). For the thread of its loop; the hooks are
// called in it, and may call back.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/refusal_log.h"
#include "rendezvous/peer/source_filter.h"
#include "rendezvous/store/connection.h"
#include "rendezvous/store/poller.h"
#include "rendezvous/store/same_user.h"

namespace ddprun::rendezvous {

class StoreFront {
 public:
  struct Hooks {
    std::function<void(ClientId, Request)> on_request;
    std::function<void(ClientId)> on_input_closed;     // it sends no more: its wait ends; perhaps called more than once
    std::function<void(ClientId)> on_closed;           // it also receives no more; perhaps called more than once
    std::function<void(const std::string& line)> log;  // "refused 127.0.0.1: ...", as refusal_log.h says
  };
  // Our tags in the poller: the listener has 0, clients have theirs from 1.
  static constexpr ClientId kClientsEnd = ClientId{1} << 48;
  static bool owns(std::uint64_t tag) { return tag < kClientsEnd; }

  // Takes ownership of `listening`, from open_listener(). `own_user_only`: for peers on this machine (same_user.h).
  StoreFront(const Listening& listening, bool own_user_only, const ServerLimits& limits, MemoryBudget& under_way,
             Poller& poller, Hooks hooks);

  void on_ready(const epoll_event& event);
  // Writes the output of this turn, and removes clients that are late or closed.
  void finish_turn();
  TimePoint next_deadline() const;  // TimePoint::max(): none
  std::size_t clients() const { return clients_.size(); }
  // Closes all clients and the listener at once.
  void close();
  // Reports a client that is closed because there is no memory for its request; once a minute for each reason.
  void log_out_of_memory(CloseConnection::Why why, const MemoryBudget& memory);
  // Values that wait to be sent are counted only here.
  void count_values() { host_.values_are_counted_elsewhere = false; }

  // No effect on a client that is gone.
  void send(ClientId to, const Reply& reply);
  void send(ClientId to, const Value& bytes);
  // Takes no further request of this client until resume().
  void hold(ClientId client);
  void resume(ClientId client);
  void close_after_output(ClientId client);

 private:
  // A client and the loop's data about it.
  struct Client {
    Client(ClientId id, Fd socket, ConnectionHost& host) : connection(id, std::move(socket), host) {}
    Connection connection;
    std::uint32_t awaited = EPOLLIN;
    TimePoint deadline = TimePoint::max();
    bool touched = false;
  };

  void accept_some();
  void pause_accepting();
  void refuse(const std::string& complaint);
  void admit(Fd socket, const PeerSource& source);
  void add_client(Fd socket, const std::optional<PeerSource>& counted);
  Client* find(ClientId id);
  void touch(ClientId id, Client& client);
  template <class Step>
  void attempt(ClientId id, Client& client, Step step);
  void report_end(ClientId id, const Connection& connection);
  void update(ClientId id, Client& client);
  void remove(ClientId id);
  void on_validated(ClientId id);
  void on_failed(ClientId id);
  void remove_expired();

  Poller& poller_;
  const Hooks hooks_;
  Fd listener_;
  std::optional<SameUser> same_user_;
  std::optional<SourceFilter> filter_;
  RefusalLog refusals_{AdmissionLimits{}};
  TimePoint accept_again_ = TimePoint::max();
  ConnectionHost host_;
  ClientId next_id_ = 1;
  std::unordered_map<ClientId, Client> clients_;
  // Oldest first, as ids grow. The source is where its failures count; empty for processes whose user is known, as one
  // of them could block the others.
  std::map<ClientId, std::optional<PeerSource>> unvalidated_;
  std::set<std::pair<TimePoint, ClientId>> deadlines_;  // of the few that have one
  std::pair<ClientId, Client*> last_found_ = {};        // the client looked up last
  std::vector<ClientId> touched_;                       // in this turn; to be flushed and updated
};

}  // namespace ddprun::rendezvous
