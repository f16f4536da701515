#include "rendezvous/store/waiting_clients.h"

#include <utility>

#include "rendezvous/base/error.h"

namespace ddprun::rendezvous {

std::size_t WaitingClients::cost_of(const std::vector<std::string>& names) {
  constexpr std::size_t kWaitBytes = 128,
                        kNameBytes = 224;  // per name: two strings, a list of clients, its entry there
  std::size_t bytes = kWaitBytes;
  for (const std::string& name : names) bytes += kNameBytes + 2 * name.capacity();
  return bytes;
}

void WaitingClients::park(ClientId client, std::vector<std::string> names) {
  check(!names.empty(), "a wait has at least one name");
  cancel(client);
  Wait& wait = waits_[client];
  const std::size_t bytes = cost_of(names);
  bytes_ += bytes;
  wait = {next_ticket_++, 0, std::move(names), bytes};
  for (const std::string& name : wait.names)
    if (by_name_[name].emplace(wait.ticket, client).second) ++wait.missing;  // a repeated name counts once
}

std::vector<ClientId> WaitingClients::arrived(const std::string& name) {
  const auto queue = by_name_.extract(name);
  if (queue.empty()) return {};
  std::vector<ClientId> woken;
  for (const auto& [ticket, client] : queue.mapped())
    if (count_arrival(client)) woken.push_back(client);
  return woken;
}

std::vector<ClientId> WaitingClients::arrived_for_one(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return {};
  const ClientId oldest = found->second.begin()->second;
  found->second.erase(found->second.begin());
  if (found->second.empty()) by_name_.erase(found);
  return count_arrival(oldest) ? std::vector{oldest} : std::vector<ClientId>{};
}

void WaitingClients::cancel(ClientId client) {
  const auto found = waits_.find(client);
  if (found == waits_.end()) return;
  for (const std::string& name : found->second.names) {
    const auto queue = by_name_.find(name);
    if (queue == by_name_.end()) continue;
    queue->second.erase(found->second.ticket);
    if (queue->second.empty()) by_name_.erase(queue);
  }
  erase(found);
}

void WaitingClients::erase(std::unordered_map<ClientId, Wait>::iterator wait) {
  bytes_ -= wait->second.bytes;
  waits_.erase(wait);
}

bool WaitingClients::count_arrival(ClientId client) {
  const auto wait = waits_.find(client);
  if (--wait->second.missing > 0) return false;
  erase(wait);
  return true;
}

}  // namespace ddprun::rendezvous
