// The key-value store of one round: keys, queues and the clients that wait, as one value.
//
// No socket, thread or clock. Give it every request in the order of arrival; send the answers it returns, in order.
// An answer may go to another client than the one that asked: a SET of one ends the WAIT of another. Each request is
// atomic. A client's end removes nothing but its wait; nothing expires.
//
// Keys and queues have names of their own: they may share one, and never their contents.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/protocol.h"
#include "rendezvous/waiting_clients.h"

namespace ddprun {

struct Answer {
  ClientId to = 0;
  Reply reply;
};
using Answers = std::vector<Answer>;

class Store {
 public:
  Answers on(ClientId from, Request request);
  // The client is gone, and so is its wait.
  void forget(ClientId client);
  bool anyone_waits() const { return !waiting_.empty() || !at_barrier_.empty(); }

 private:
  using Stored = std::shared_ptr<std::string>;

  Answers set(std::string key, std::string value);
  Answers multi_set(Request& request);
  Answers append(const std::string& key, const std::string& value);
  Answers compare_set(ClientId from, Request& request);
  Answers add(ClientId from, const std::string& key, std::int64_t delta);
  Answers wait(ClientId from, std::vector<std::string> keys);
  Answers cancel_wait(ClientId from);
  Answers queue_push(std::string key, std::string value);
  Answers queue_pop(ClientId from, const std::string& key);
  Answers barrier(ClientId from, const std::string& key, std::int64_t world_size);
  Values get(const std::vector<std::string>& keys) const;
  Values list_keys() const;
  std::int64_t queue_len(const std::string& key) const;
  bool ready(const std::string& key) const;
  bool all_ready(const std::vector<std::string>& keys) const;

  // Empty where the old value is no number.
  std::optional<std::int64_t> count_up(const std::string& key, std::int64_t delta);

  std::unordered_map<std::string, Stored> values_;
  std::unordered_map<std::string, std::deque<Value>> queues_;  // never an empty one
  WaitingClients waiting_;                                     // for keys and queues
  WaitingClients at_barrier_;
};

}  // namespace ddprun
