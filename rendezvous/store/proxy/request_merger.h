// The bookkeeping of a node's store proxy: which client's request travels how, and who gets which reply.
//
// A value. Requests gather in a batch until it is taken to be sent. In one batch, clients that wait for the same or
// read the same are asked for once. That is exact: whoever joins has asked nothing after the request joined and before
// its own, and nothing it reads was written between the two; and a batch that was sent is closed, since an answer on
// its way may be older than the next asker. No waits are put together that the store could tell apart either: it lets
// each asker wait by itself, as a queue wakes them one by one.
//
// A client has one request on its way at a time, and besides it one wait. Its requests reach the store in its order;
// what it asked before it was gone still counts, but for its wait.
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
  // True: the client must not ask again before settled() names it. No client before its last request is settled.
  bool ask(ClientId client, const Request& request);
  // The client has nothing more to say: its wait ends, and it still hears what it asked.
  void end_wait(ClientId client);
  // The client is gone.
  void forget(ClientId client);

  std::size_t unsent_bytes() const { return unsent_bytes_; }
  // Whether a batch is to be taken now. While the last one is not answered yet, the next one gathers: the busier the
  // store, the more travels together, and nothing is asked for twice at a time.
  bool has_batch() const { return !batch_.empty() && !on_its_way_; }
  // To be sent, in this order.
  std::string take_batch();

  struct Receivers {
    std::vector<ClientId> of_bytes = {};  // the part's bytes are for each of them
    std::vector<ClientId> settled = {};   // may ask again
    std::vector<ClientId> hung_up = {};
    bool known = true;  // false: no such ticket was ever given; the other side is out of its mind
  };
  Receivers on(const LinkReplyPart& part);

  // Requests in all, and how many of them travelled.
  struct Counts {
    std::uint64_t asked = 0, sent = 0;
  };
  Counts counts() const { return counts_; }
  std::size_t unanswered() const { return asked_.size(); }

 private:
  using Position = std::uint64_t;  // in all that is sent
  struct Entry {
    Position position = 0;
    Ticket forget = 0;      // or else:
    std::string bytes;      // a request
    bool answered = false;  // some day
    std::vector<ClientId> askers;
  };
  struct Client {
    Position last = 0;
    Ticket waits = 0;  // 0: does not
  };
  struct Asked {
    ClientId client = 0;
    bool parked = false;
  };

  bool join(ClientId client, const Request& request, const std::string& bytes);
  void append(ClientId client, const Request& request, std::string bytes);
  void end_wait(Client& client);
  void settle(const LinkReplyPart& part, Ticket ticket, Receivers& receivers);

  std::unordered_map<ClientId, Client> clients_;
  std::deque<Entry> batch_;
  std::unordered_map<std::string_view, Entry*> shared_;   // of the batch; the keys are the entries' bytes
  std::unordered_map<std::string, Position> changed_at_;  // keys, since the first shared one
  Position last_position_ = 0;
  Ticket last_ticket_ = 0;
  std::unordered_map<Ticket, Asked> asked_;
  Ticket on_its_way_ = 0;  // the last one of the last batch to be answered; 0: it was
  std::size_t unsent_bytes_ = 0;
  Counts counts_;
};

}  // namespace ddprun::rendezvous
