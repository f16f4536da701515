// The key-value store of one round: keys, queues and the clients that wait, as one value.
//
// No socket, thread or clock. Give it every request in the order of arrival; send the answers it returns, in order. An
// answer may go to another client than the requesting one: one client's SET ends another's WAIT. Each request is
// atomic. A client's end removes only its wait; nothing expires.
//
// Keys and queues are separate: a key and a queue may share a name, never their contents.
//
// A request that needs more memory than is allowed is refused completely, by CloseConnection; all else continues.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/store/protocol.h"
#include "rendezvous/store/store_memory.h"
#include "rendezvous/store/waiting_clients.h"

namespace ddprun::rendezvous {

struct Answer {
  ClientId to = 0;
  Reply reply;
};
using Answers = std::vector<Answer>;

class Store {
 public:
  Store() : Store(std::make_shared<StoreMemory>()) {}
  // Every value in an answer keeps the memory, too.
  explicit Store(std::shared_ptr<StoreMemory> memory) : memory_(std::move(memory)) {}
  Answers on(ClientId from, Request request);
  // The client is gone, and so is its wait.
  void forget(ClientId client);
  bool anyone_waits() const { return !waiting_.empty() || !at_barrier_.empty(); }

 private:
  struct StoredValue {
    StoredValue(std::string text, std::shared_ptr<StoreMemory> memory);
    void recount();
    std::string bytes;
    std::shared_ptr<StoreMemory> memory;
    MemoryBudget::Charge charge;
  };
  using Stored = std::shared_ptr<StoredValue>;

  Stored make_stored(std::string text) const { return std::make_shared<StoredValue>(std::move(text), memory_); }
  static Value value_of(const Stored& stored) { return {stored, &stored->bytes}; }
  // Whether this may be stored: under a key, which may be a new one, or in a queue.
  bool has_room_for(const std::string& key, const std::string& value) const;
  bool has_room_to_append(const std::string& key, const std::string& value) const;
  bool has_room_in_queue(const std::string& key, const std::string& value) const;
  bool may_wait_for(const std::vector<std::string>& names) const;
  void recount();

  Answers answer(ClientId from, Request request);
  Answers set(std::string key, std::string value);
  Answers set(ClientId from, Request& request);
  Answers multi_set(ClientId from, Request& request);
  Answers append(ClientId from, const std::string& key, const std::string& value);
  Answers compare_set(ClientId from, Request& request);
  Answers add(ClientId from, const std::string& key, std::int64_t delta);
  Answers wait(ClientId from, std::vector<std::string> keys);
  Answers cancel_wait(ClientId from);
  Answers delete_key(ClientId from, const std::string& key);
  Answers queue_push(ClientId from, std::string key, std::string value);
  Answers queue_pop(ClientId from, const std::string& key);
  Answers barrier(ClientId from, const std::string& key, std::int64_t world_size);
  Reply get(const std::vector<std::string>& keys) const;
  Reply list_keys() const;
  std::int64_t queue_len(const std::string& key) const;
  bool ready(const std::string& key) const;
  bool all_ready(const std::vector<std::string>& keys) const;

  // Empty if the old value is not a number.
  std::optional<std::int64_t> count_up(const std::string& key, std::int64_t delta);

  std::shared_ptr<StoreMemory> memory_;
  std::unordered_map<std::string, Stored> values_;
  std::unordered_map<std::string, std::deque<Value>> queues_;  // never an empty one
  WaitingClients waiting_;                                     // for keys and queues
  WaitingClients at_barrier_;
  MemoryBudget::Charge names_{memory_->kept}, waits_{memory_->under_way};  // of keys and queues, besides their values
  std::size_t name_bytes_ = 0;
};

}  // namespace ddprun::rendezvous
