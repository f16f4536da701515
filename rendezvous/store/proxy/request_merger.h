// The bookkeeping of a node's store proxy: how each client's request is sent, and who gets which reply.
//
// A value. Requests gather in a batch until it is taken to be sent. Within a batch, equal waits or reads of several
// clients are sent once. That is exact: a client that joins has sent nothing between the shared request and its own,
// and nothing that it reads was written between the two; and a batch that was sent is closed, since its answer may be
// older than the next request. The store still lets each requester wait by itself, as a queue wakes them one by one, so
// merged waits look the same to it.
//
// A client has one request on its way at a time, and besides it one wait. Its requests reach the store in its order;
// what it requested before it was gone still counts, except for its wait.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/store/link_protocol.h"
#include "rendezvous/store/waiting_clients.h"

namespace ddprun::rendezvous {

class RequestMerger {
 public:
  // True: the client must not send its next request before Receivers::ready names it.
  bool submit(ClientId client, const Request& request);
  // The client sends no more: its wait ends; it still gets its answers.
  void end_wait(ClientId client);
  // The client is gone.
  void forget(ClientId client);

  std::size_t unsent_bytes() const { return unsent_bytes_; }
  // Whether to take a batch now. While the last one is unanswered, the next one gathers: the busier the store, the more
  // is sent together, and nothing is requested twice at a time.
  bool has_batch() const { return !batch_.empty() && !awaited_ticket_; }
  // The bytes to send, in order.
  std::string take_batch();

  struct Receivers {
    std::vector<ClientId> of_bytes = {};  // each gets the part's bytes
    std::vector<ClientId> ready = {};     // may send their next request
    std::vector<ClientId> to_close = {};
    bool known = true;  // false: no such ticket was ever given: the peer is broken
  };
  Receivers on(const LinkReplyPart& part);

  // All requests, and how many of them were sent.
  struct Counts {
    std::uint64_t requests = 0, sent = 0;
  };
  Counts counts() const { return counts_; }
  std::size_t unanswered() const { return pending_.size(); }

 private:
  using Position = std::uint64_t;  // among all requests sent
  struct Entry {
    Position position = 0;
    Ticket cancel = 0;      // or else:
    std::string bytes;      // a request
    bool answered = false;  // will get an answer
    std::vector<ClientId> requesters;
  };
  struct Client {
    Position last = 0;
    Ticket wait_ticket = 0;  // 0: no wait
  };
  struct Pending {
    ClientId client = 0;
    bool parked = false;
  };

  bool join(ClientId client, const Request& request, const std::string& bytes);
  void append(ClientId client, const Request& request, std::string bytes);
  void end_wait(Client& client);
  void complete(const LinkReplyPart& part, Ticket ticket, Receivers& receivers);

  std::unordered_map<ClientId, Client> clients_;
  std::deque<Entry> batch_;
  std::unordered_map<std::string_view, Entry*> shared_;   // in the batch; the keys are the entries' bytes
  std::unordered_map<std::string, Position> changed_at_;  // keys changed since the first shared request
  Position last_position_ = 0;
  Ticket last_ticket_ = 0;
  std::unordered_map<Ticket, Pending> pending_;
  Ticket awaited_ticket_ = 0;  // the last batch's last ticket that gets an answer; 0: it has come
  std::size_t unsent_bytes_ = 0;
  Counts counts_;
};

}  // namespace ddprun::rendezvous
