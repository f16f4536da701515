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

bool RequestMerger::submit(ClientId client, const Request& request) {
  ++counts_.requests;
  std::string bytes = encode(request);
  if (begins_or_ends_wait(request.op)) end_wait(clients_[client]);
  if (!join(client, request, bytes)) append(client, request, std::move(bytes));
  return is_answered(request.op);
}

bool RequestMerger::join(ClientId client, const Request& request, const std::string& bytes) {
  if (!can_be_shared(request.op)) return false;
  const auto found = shared_.find(bytes);
  if (found == shared_.end() || found->second->requesters.size() >= kRequestersMax) return false;
  Entry& entry = *found->second;
  if (clients_[client].last > entry.position) return false;
  const auto changed = [&](const std::string& key) {
    const auto at = changed_at_.find(key);
    return at != changed_at_.end() && at->second > entry.position;
  };
  if (std::any_of(request.keys.begin(), request.keys.end(), changed)) return false;
  entry.requesters.push_back(client);
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
  if (const Ticket ticket = std::exchange(client.wait_ticket, 0))
    batch_.push_back({++last_position_, ticket, {}, false, {}});
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
    if (entry.cancel) {
      out += encode(LinkCancelWait{entry.cancel});
      continue;
    }
    out += encode_request_head(static_cast<std::uint32_t>(entry.requesters.size())) += entry.bytes;
    for (const ClientId client : entry.requesters) {
      ++last_ticket_;
      if (entry.answered) pending_.emplace(awaited_ticket_ = last_ticket_, Pending{client});
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
    const auto found = pending_.find(ticket);
    if (found == pending_.end()) continue;  // cancelled while its answer was on the way
    if (clients_.contains(found->second.client) && !part.bytes.empty())
      receivers.of_bytes.push_back(found->second.client);
    if (part.last) complete(part, ticket, receivers);
  }
  // First answers, at least `parked`, come in the order of the tickets.
  if (part.last && part.head.first + part.head.tickets - 1 >= awaited_ticket_) awaited_ticket_ = 0;
  return receivers;
}

void RequestMerger::complete(const LinkReplyPart& part, Ticket ticket, Receivers& receivers) {
  Pending& pending = pending_.at(ticket);
  const ClientId id = pending.client;
  const auto client = clients_.find(id);
  const bool was_parked = pending.parked, connected = client != clients_.end();
  if (part.head.kind == LinkReplyKind::parked) {
    if (std::exchange(pending.parked, true)) return;
    if (!connected) batch_.push_back({++last_position_, ticket, {}, false, {}});
    if (connected) client->second.wait_ticket = ticket;
  } else {
    pending_.erase(ticket);
    if (connected && client->second.wait_ticket == ticket) client->second.wait_ticket = 0;
  }
  if (!connected) return;
  if (part.head.kind == LinkReplyKind::close) receivers.to_close.push_back(id);
  if (!was_parked && part.head.kind != LinkReplyKind::close) receivers.ready.push_back(id);
}

}  // namespace ddprun::rendezvous
