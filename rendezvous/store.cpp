#include "rendezvous/store.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace ddprun {
namespace {

Answers one(ClientId to, Reply reply) {
  Answers answers;
  answers.push_back({to, std::move(reply)});
  return answers;
}

Answers wake(const std::vector<ClientId>& clients) {
  Answers answers;
  for (const ClientId client : clients) answers.push_back({client, Flag::stop_waiting});
  return answers;
}

Answers both(Answers first, Answers second) {
  std::move(second.begin(), second.end(), std::back_inserter(first));
  return first;
}

// As C's strtoll reads it in base 10: leading blanks, a sign, digits; what follows them is ignored.
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

const Value& nothing() {
  static const Value empty = std::make_shared<const std::string>();
  return empty;
}

Number number_of(std::size_t count) { return {static_cast<std::int64_t>(count)}; }

}  // namespace

Answers Store::on(ClientId from, Request request) {
  auto& keys = request.keys;
  switch (request.op) {
    case Op::set:
      return set(std::move(keys[0]), std::move(request.values[0]));
    case Op::multi_set:
      return multi_set(request);
    case Op::append:
      return append(keys[0], request.values[0]);
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
      return one(from, number_of(values_.erase(keys[0])));
    case Op::ping:
      return one(from, Nonce{static_cast<std::uint32_t>(request.number)});
    case Op::queue_push:
      return queue_push(std::move(keys[0]), std::move(request.values[0]));
    case Op::queue_pop:
      return queue_pop(from, keys[0]);
    case Op::queue_len:
      return one(from, Number{queue_len(keys[0])});
    case Op::barrier:
      return barrier(from, keys[0], request.number);
    case Op::validate:
      break;  // the parser keeps it to itself
  }
  return one(from, Hangup{});
}

void Store::forget(ClientId client) {
  waiting_.cancel(client);
  at_barrier_.cancel(client);
}

Answers Store::set(std::string key, std::string value) {
  Answers answers = wake(waiting_.arrived(key));
  values_.insert_or_assign(std::move(key), std::make_shared<std::string>(std::move(value)));
  return answers;
}

Answers Store::multi_set(Request& request) {
  Answers answers;
  for (std::size_t i = 0; i < request.keys.size(); ++i)
    answers = both(std::move(answers), set(std::move(request.keys[i]), std::move(request.values[i])));
  return answers;
}

Answers Store::append(const std::string& key, const std::string& value) {
  Stored& stored = values_[key];
  if (!stored)
    stored = std::make_shared<std::string>(value);
  else if (stored.use_count() == 1)
    stored->append(value);
  else  // a reply on its way holds the old bytes
    stored = std::make_shared<std::string>(*stored + value);
  return wake(waiting_.arrived(key));
}

Answers Store::compare_set(ClientId from, Request& request) {
  std::string &expected = request.values[0], &desired = request.values[1];
  const auto found = values_.find(request.keys[0]);
  if (found == values_.end() && !expected.empty())  // the stock servers' answer: the caller sees its own expectation
    return one(from, Values{{}, {std::make_shared<std::string>(std::move(expected))}});
  if (found != values_.end() && *found->second != expected) return one(from, Values{{}, {found->second}});
  Answers woken = set(request.keys[0], std::move(desired));
  return both(one(from, get(request.keys)), std::move(woken));
}

Answers Store::add(ClientId from, const std::string& key, std::int64_t delta) {
  const auto sum = count_up(key, delta);
  if (!sum) return one(from, Hangup{});
  return both(one(from, Number{*sum}), wake(waiting_.arrived(key)));
}

std::optional<std::int64_t> Store::count_up(const std::string& key, std::int64_t delta) {
  const auto found = values_.find(key);
  const auto old = found == values_.end() ? 0 : leading_number(*found->second);
  if (!old) return {};
  const std::int64_t sum = wrapping_sum(*old, delta);
  values_.insert_or_assign(key, std::make_shared<std::string>(std::to_string(sum)));
  return sum;
}

Answers Store::wait(ClientId from, std::vector<std::string> keys) {
  forget(from);
  std::erase_if(keys, [this](const std::string& key) { return ready(key); });
  if (keys.empty()) return one(from, Flag::stop_waiting);
  waiting_.park(from, std::move(keys));
  return {};
}

Answers Store::cancel_wait(ClientId from) {
  forget(from);
  return one(from, Flag::wait_canceled);
}

Answers Store::queue_push(std::string key, std::string value) {
  Answers answers = wake(waiting_.arrived_for_one(key));
  queues_[std::move(key)].push_back(std::make_shared<const std::string>(std::move(value)));
  return answers;
}

Answers Store::queue_pop(ClientId from, const std::string& key) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) return one(from, Values{0, {}});
  Values popped{queue_len(key), {std::move(found->second.front())}};
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
  return one(from, std::move(popped));
}

// The last one in opens it. The counter stays as it is: a barrier is for one use.
Answers Store::barrier(ClientId from, const std::string& key, std::int64_t world_size) {
  forget(from);
  const auto here = count_up(key, 1);
  if (!here) return one(from, Hangup{});
  Answers woken = wake(waiting_.arrived(key));
  if (*here < world_size) {
    at_barrier_.park(from, {key});
    return woken;
  }
  Answers opened = both(one(from, Flag::stop_waiting), wake(at_barrier_.arrived(key)));
  return both(std::move(opened), std::move(woken));
}

Values Store::get(const std::vector<std::string>& keys) const {
  Values found;
  found.values.reserve(keys.size());
  for (const std::string& key : keys) {
    const auto value = values_.find(key);
    found.values.push_back(value == values_.end() ? nothing() : value->second);
  }
  return found;
}

Values Store::list_keys() const {
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

}  // namespace ddprun
