// Clients that wait for names; each name has its clients in the order of their arrival.
//
// A value. A client has one wait at most; a later one replaces it. A name that arrived stays counted, and a client
// whose last name arrived is in no list any more, so no client is woken twice. Every operation costs only the names and
// clients it concerns, never all of them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddprun::rendezvous {

using ClientId = std::uint64_t;

class WaitingClients {
 public:
  // `names` may repeat; it must not be empty.
  void park(ClientId client, std::vector<std::string> names);
  // The clients for which this was the last missing name, oldest first.
  std::vector<ClientId> arrived(const std::string& name);
  // The same for something that only one client can have: only the oldest wait for it.
  std::vector<ClientId> arrived_for_one(const std::string& name);
  void cancel(ClientId client);
  bool empty() const { return waits_.empty() && by_name_.empty(); }
  // Bytes that the waits hold, and that a wait for these names would.
  std::size_t bytes() const { return bytes_; }
  static std::size_t cost_of(const std::vector<std::string>& names);

 private:
  using Ticket = std::uint64_t;
  using Queue = std::map<Ticket, ClientId>;
  struct Wait {
    Ticket ticket = 0;
    std::size_t missing = 0;
    std::vector<std::string> names;  // also those that have arrived
    std::size_t bytes = 0;
  };
  bool count_arrival(ClientId client);  // true: it was its last name

  void erase(std::unordered_map<ClientId, Wait>::iterator wait);

  Ticket next_ticket_ = 0;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, Queue> by_name_;
  std::unordered_map<ClientId, Wait> waits_;
};

}  // namespace ddprun::rendezvous
