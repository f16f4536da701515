#include "rendezvous/store/store.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "rendezvous/store/output_queue.h"

namespace ddprun::rendezvous {
namespace {

Answers one(ClientId to, Reply reply) {
  Answers answers;
  answers.push_back({to, std::move(reply)});
  return answers;
}

Answers refused(ClientId from, CloseConnection::Why why) { return one(from, CloseConnection{why}); }

Answers wake(const std::vector<ClientId>& clients) {
  Answers answers;
  for (const ClientId client : clients) answers.push_back({client, Flag::stop_waiting});
  return answers;
}

Answers joined(Answers first, Answers second) {
  std::move(second.begin(), second.end(), std::back_inserter(first));
  return first;
}

// As C's strtoll in base 10: leading blanks, a sign, digits; the rest is ignored.
std::optional<std::int64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size()));
  if (text.starts_with("+-")) return {};
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) return {};
  return number;
}

std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

const Value& empty_value() {
  static const Value empty = std::make_shared<const std::string>();
  return empty;
}

// Bytes of containers and heap besides the strings themselves.
constexpr std::size_t kValueBytes = 128, kKeyBytes = 96, kQueueBytes = 768, kPlaceInQueueBytes = 16;

std::size_t cost_of_value(const std::string& text) { return kValueBytes + text.capacity(); }
std::size_t cost_of_key(const std::string& key) { return kKeyBytes + key.size(); }
std::size_t cost_of_queue(const std::string& key) { return kQueueBytes + key.size(); }

bool may_copy(std::size_t bytes, const StoreMemory& memory) {
  return bytes <= kAlwaysAllowedBytes || memory.under_way.has_room(bytes);
}

Number number_of(std::size_t count) { return {static_cast<std::int64_t>(count)}; }

}  // namespace

Store::StoredValue::StoredValue(std::string text, std::shared_ptr<StoreMemory> of)
    : bytes(std::move(text)), memory(std::move(of)), charge(memory->kept, cost_of_value(bytes)) {}

void Store::StoredValue::recount() { charge.set(cost_of_value(bytes)); }

Answers Store::on(ClientId from, Request request) {
  Answers answers = answer(from, std::move(request));
  recount();
  return answers;
}

void Store::recount() {
  names_.set(name_bytes_);
  waits_.set(waiting_.bytes() + at_barrier_.bytes());
}

bool Store::has_room_for(const std::string& key, const std::string& value) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return memory_->kept.has_room(cost_of_key(key) + cost_of_value(value));
  const std::size_t before = cost_of_value(found->second->bytes), after = cost_of_value(value);
  return after <= before || memory_->kept.has_room(after - before);
}

// A growing string reserves as much again.
bool Store::has_room_to_append(const std::string& key, const std::string& value) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return has_room_for(key, value);
  const std::string& old = found->second->bytes;
  const std::size_t size = old.size() + value.size();
  if (found->second.use_count() > 1) return memory_->kept.has_room(kValueBytes + size);
  return size <= old.capacity() || memory_->kept.has_room(std::max(size, 2 * old.capacity()));
}

bool Store::has_room_in_queue(const std::string& key, const std::string& value) const {
  const std::size_t queue = queues_.contains(key) ? 0 : cost_of_queue(key);
  return memory_->kept.has_room(queue + kPlaceInQueueBytes + cost_of_value(value));
}

bool Store::may_wait_for(const std::vector<std::string>& names) const {
  const std::size_t bytes = WaitingClients::cost_of(names);
  return bytes <= kAlwaysAllowedBytes || memory_->under_way.has_room(bytes);
}

Answers Store::answer(ClientId from, Request request) {
  auto& keys = request.keys;
  switch (request.op) {
    case Op::set:
      return set(from, request);
    case Op::multi_set:
      return multi_set(from, request);
    case Op::append:
      return append(from, keys[0], request.values[0]);
    case Op::compare_set:
      return compare_set(from, request);
    case Op::add:
      return add(from, keys[0], request.number);
    case Op::get:
    case Op::multi_get:
      return one(from, get(keys));
    case Op::check:
      return one(from, all_ready(keys) ? Flag::ready : Flag::not_ready);
    case Op::wait:
      return wait(from, std::move(keys));
    case Op::cancel_wait:
      return cancel_wait(from);
    case Op::num_keys:
      return one(from, number_of(values_.size()));
    case Op::list_keys:
      return one(from, list_keys());
    case Op::delete_key:
      return delete_key(from, keys[0]);
    case Op::ping:
      return one(from, Nonce{static_cast<std::uint32_t>(request.number)});
    case Op::queue_push:
      return queue_push(from, std::move(keys[0]), std::move(request.values[0]));
    case Op::queue_pop:
      return queue_pop(from, keys[0]);
    case Op::queue_len:
      return one(from, Number{queue_len(keys[0])});
    case Op::barrier:
      return barrier(from, keys[0], request.number);
    case Op::validate:
      break;  // the parser consumes it
  }
  return one(from, CloseConnection{});
}

void Store::forget(ClientId client) {
  waiting_.cancel(client);
  at_barrier_.cancel(client);
  recount();
}

// The caller has checked that there is room.
Answers Store::set(std::string key, std::string value) {
  Answers answers = wake(waiting_.arrived(key));
  const std::size_t cost = cost_of_key(key);
  if (values_.insert_or_assign(std::move(key), make_stored(std::move(value))).second) name_bytes_ += cost;
  return answers;
}

Answers Store::set(ClientId from, Request& request) {
  if (!has_room_for(request.keys[0], request.values[0])) return refused(from, CloseConnection::Why::store_full);
  return set(std::move(request.keys[0]), std::move(request.values[0]));
}

// Counts each key as a new one, as the request is refused completely or not at all.
Answers Store::multi_set(ClientId from, Request& request) {
  std::size_t cost = 0;
  for (std::size_t i = 0; i < request.keys.size(); ++i)
    cost += cost_of_key(request.keys[i]) + cost_of_value(request.values[i]);
  if (!memory_->kept.has_room(cost)) return refused(from, CloseConnection::Why::store_full);
  Answers answers;
  for (std::size_t i = 0; i < request.keys.size(); ++i)
    answers = joined(std::move(answers), set(std::move(request.keys[i]), std::move(request.values[i])));
  return answers;
}

Answers Store::append(ClientId from, const std::string& key, const std::string& value) {
  if (!has_room_to_append(key, value)) return refused(from, CloseConnection::Why::store_full);
  const auto found = values_.find(key);
  if (found == values_.end()) return set(key, value);
  Stored& stored = found->second;
  if (stored.use_count() == 1)
    stored->bytes.append(value);
  else  // an unsent reply holds the old bytes
    stored = make_stored(stored->bytes + value);
  stored->recount();
  return wake(waiting_.arrived(key));
}

Answers Store::compare_set(ClientId from, Request& request) {
  std::string &expected = request.values[0], &desired = request.values[1];
  const auto found = values_.find(request.keys[0]);
  if (found == values_.end() && !expected.empty())  // as the stock servers: the caller gets `expected`
    return one(from, Values{{}, {std::make_shared<std::string>(std::move(expected))}});
  if (found != values_.end() && found->second->bytes != expected)
    return one(from, Values{{}, {value_of(found->second)}});
  if (!has_room_for(request.keys[0], desired)) return refused(from, CloseConnection::Why::store_full);
  Answers woken = set(request.keys[0], std::move(desired));
  return joined(one(from, get(request.keys)), std::move(woken));
}

Answers Store::add(ClientId from, const std::string& key, std::int64_t delta) {
  if (!has_room_for(key, {})) return refused(from, CloseConnection::Why::store_full);
  const auto sum = count_up(key, delta);
  if (!sum) return one(from, CloseConnection{});
  return joined(one(from, Number{*sum}), wake(waiting_.arrived(key)));
}

std::optional<std::int64_t> Store::count_up(const std::string& key, std::int64_t delta) {
  const auto found = values_.find(key);
  const auto old = found == values_.end() ? 0 : leading_number(found->second->bytes);
  if (!old) return {};
  const std::int64_t sum = wrapping_sum(*old, delta);
  if (found == values_.end()) name_bytes_ += cost_of_key(key);
  values_.insert_or_assign(key, make_stored(std::to_string(sum)));
  return sum;
}

Answers Store::wait(ClientId from, std::vector<std::string> keys) {
  forget(from);
  std::erase_if(keys, [this](const std::string& key) { return ready(key); });
  if (keys.empty()) return one(from, Flag::stop_waiting);
  if (!may_wait_for(keys)) return refused(from, CloseConnection::Why::too_much_under_way);
  waiting_.park(from, std::move(keys));
  return {};
}

Answers Store::cancel_wait(ClientId from) {
  forget(from);
  return one(from, Flag::wait_canceled);
}

Answers Store::delete_key(ClientId from, const std::string& key) {
  const std::size_t erased = values_.erase(key);
  if (erased) name_bytes_ -= cost_of_key(key);
  return one(from, number_of(erased));
}

Answers Store::queue_push(ClientId from, std::string key, std::string value) {
  if (!has_room_in_queue(key, value)) return refused(from, CloseConnection::Why::store_full);
  Answers answers = wake(waiting_.arrived_for_one(key));
  const std::size_t cost = cost_of_queue(key);
  const auto [queue, is_new] = queues_.try_emplace(std::move(key));
  name_bytes_ += kPlaceInQueueBytes + (is_new ? cost : 0);
  const Stored kept = make_stored(std::move(value));
  queue->second.push_back(value_of(kept));
  return answers;
}

Answers Store::queue_pop(ClientId from, const std::string& key) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) return one(from, Values{0, {}});
  Values popped{queue_len(key), {std::move(found->second.front())}};
  found->second.pop_front();
  const bool last = found->second.empty();
  name_bytes_ -= kPlaceInQueueBytes + (last ? cost_of_queue(key) : 0);
  if (last) queues_.erase(found);
  return one(from, std::move(popped));
}

// The last client to arrive opens it. The counter keeps its value: a barrier is for one use.
Answers Store::barrier(ClientId from, const std::string& key, std::int64_t world_size) {
  forget(from);
  if (!has_room_for(key, {})) return refused(from, CloseConnection::Why::store_full);
  const auto arrived = count_up(key, 1);
  if (!arrived) return one(from, CloseConnection{});
  Answers woken = wake(waiting_.arrived(key));
  if (*arrived < world_size) {
    at_barrier_.park(from, {key});
    return woken;
  }
  Answers opened = joined(one(from, Flag::stop_waiting), wake(at_barrier_.arrived(key)));
  return joined(std::move(opened), std::move(woken));
}

// Large values are sent from where they are stored; small ones are copied for each reader.
Reply Store::get(const std::vector<std::string>& keys) const {
  Values found;
  found.values.reserve(keys.size());
  std::size_t copied = 0;
  for (const std::string& key : keys) {
    const auto value = values_.find(key);
    found.values.push_back(value == values_.end() ? empty_value() : value_of(value->second));
    if (const std::size_t size = found.values.back()->size(); size < OutputQueue::kSharedFrom) copied += size;
  }
  if (may_copy(copied, *memory_)) return found;
  return CloseConnection{CloseConnection::Why::too_much_under_way};
}

Reply Store::list_keys() const {
  if (!may_copy(name_bytes_, *memory_)) return CloseConnection{CloseConnection::Why::too_much_under_way};
  Values listed{static_cast<std::int64_t>(values_.size()), {}};
  listed.values.reserve(values_.size());
  for (const auto& [key, value] : values_) listed.values.push_back(std::make_shared<const std::string>(key));
  return listed;
}

std::int64_t Store::queue_len(const std::string& key) const {
  const auto found = queues_.find(key);
  return found == queues_.end() ? 0 : static_cast<std::int64_t>(found->second.size());
}

bool Store::ready(const std::string& key) const { return values_.contains(key) || queues_.contains(key); }

bool Store::all_ready(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(), [this](const std::string& key) { return ready(key); });
}

}  // namespace ddprun::rendezvous
