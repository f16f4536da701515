#include "rendezvous/store/proxy/request_merger.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/error.h"

namespace ddprun::rendezvous {
namespace {

// Longer lists of keys are hardly ever equal, and cost more to compare.
constexpr std::size_t kSharedBytesMax = 16 << 10;

bool begins_or_ends_wait(Op op) { return op == Op::wait || op == Op::barrier || op == Op::cancel_wait; }

bool changes_keys(Op op) { return !can_be_shared(op); }

}  // namespace

bool RequestMerger::ask(ClientId client, const Request& request) {
  ++counts_.asked;
  std::string bytes = encode(request);
  if (begins_or_ends_wait(request.op)) end_wait(clients_[client]);
  if (!join(client, request, bytes)) append(client, request, std::move(bytes));
  return is_answered(request.op);
}

bool RequestMerger::join(ClientId client, const Request& request, const std::string& bytes) {
  if (!can_be_shared(request.op)) return false;
  const auto found = shared_.find(bytes);
  if (found == shared_.end() || found->second->askers.size() >= kAskersMax) return false;
  Entry& entry = *found->second;
  if (clients_[client].last > entry.position) return false;
  const auto changed = [&](const std::string& key) {
    const auto at = changed_at_.find(key);
    return at != changed_at_.end() && at->second > entry.position;
  };
  if (std::any_of(request.keys.begin(), request.keys.end(), changed)) return false;
  entry.askers.push_back(client);
  clients_[client].last = entry.position;
  return true;
}

void RequestMerger::append(ClientId client, const Request& request, std::string bytes) {
  ++counts_.sent;
  unsent_bytes_ += bytes.size();
  clients_[client].last = ++last_position_;
  Entry& entry = batch_.emplace_back(Entry{last_position_, 0, std::move(bytes), is_answered(request.op), {client}});
  if (can_be_shared(request.op) && entry.bytes.size() <= kSharedBytesMax)
    shared_.insert_or_assign(entry.bytes, &entry);
  else if (changes_keys(request.op) && !shared_.empty())
    for (const std::string& key : request.keys) changed_at_[key] = last_position_;
}

void RequestMerger::end_wait(Client& client) {
  if (const Ticket ticket = std::exchange(client.waits, 0)) batch_.push_back({++last_position_, ticket, {}, false, {}});
}

void RequestMerger::end_wait(ClientId client) {
  if (const auto found = clients_.find(client); found != clients_.end()) end_wait(found->second);
}

void RequestMerger::forget(ClientId client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  end_wait(found->second);
  clients_.erase(found);
}

std::string RequestMerger::take_batch() {
  std::string out;
  out.reserve(unsent_bytes_ + 16 * batch_.size());
  for (const Entry& entry : batch_) {
    if (entry.forget) {
      out += encode(LinkForget{entry.forget});
      continue;
    }
    out += encode_ask_head(static_cast<std::uint32_t>(entry.askers.size())) += entry.bytes;
    for (const ClientId client : entry.askers) {
      ++last_ticket_;
      if (entry.answered) asked_.emplace(on_its_way_ = last_ticket_, Asked{client});
    }
  }
  shared_.clear();
  changed_at_.clear();
  batch_.clear();
  unsent_bytes_ = 0;
  return out;
}

RequestMerger::Receivers RequestMerger::on(const LinkReplyPart& part) {
  Receivers receivers;
  receivers.known = part.head.first + part.head.tickets - 1 <= last_ticket_;
  if (!receivers.known) return receivers;
  for (Ticket ticket = part.head.first; ticket < part.head.first + part.head.tickets; ++ticket) {
    const auto found = asked_.find(ticket);
    if (found == asked_.end()) continue;  // cancelled while its answer was on the way
    if (clients_.contains(found->second.client) && !part.bytes.empty())
      receivers.of_bytes.push_back(found->second.client);
    if (part.last) settle(part, ticket, receivers);
  }
  // First answers, at least `parked`, come in the order of the tickets.
  if (part.last && part.head.first + part.head.tickets - 1 >= on_its_way_) on_its_way_ = 0;
  return receivers;
}

void RequestMerger::settle(const LinkReplyPart& part, Ticket ticket, Receivers& receivers) {
  Asked& asked = asked_.at(ticket);
  const ClientId id = asked.client;
  const auto client = clients_.find(id);
  const bool was_parked = asked.parked, here = client != clients_.end();
  if (part.head.kind == LinkReplyKind::parked) {
    if (std::exchange(asked.parked, true)) return;
    if (!here) batch_.push_back({++last_position_, ticket, {}, false, {}});
    if (here) client->second.waits = ticket;
  } else {
    asked_.erase(ticket);
    if (here && client->second.waits == ticket) client->second.waits = 0;
  }
  if (!here) return;
  if (part.head.kind == LinkReplyKind::hangup) receivers.hung_up.push_back(id);
  if (!was_parked && part.head.kind != LinkReplyKind::hangup) receivers.settled.push_back(id);
}

}  // namespace ddprun::rendezvous
