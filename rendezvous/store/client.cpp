#include "rendezvous/store/client.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "rendezvous/peer/loopback.h"
#include "rendezvous/peer/resolve.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;

// APPEND can make a value larger than any request.
constexpr std::size_t kReplyValueBytesMax = 1 << 30;
constexpr std::uint64_t kListedKeysMax = 1 << 24;
// After a wait that ended in time comes its value, after a late one its cancellation: the store gets at least this long
// to answer these.
constexpr milliseconds kAnswerLimit{2000};
constexpr milliseconds kRetryFirst{20}, kRetryMax{1000};
constexpr std::size_t kKeysShown = 3, kKeyBytesShown = 80;
constexpr std::uint32_t kNonce = 0x64647072;  // an arbitrary number

TimePoint answer_by(TimePoint deadline) { return std::max(deadline, Clock::now() + kAnswerLimit); }

// After these two the connection can be used further.
struct WaitTimedOut {};
struct TooLarge : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TimePoint after(TimePoint start, Duration limit) {
  return limit > TimePoint::max() - start ? TimePoint::max() : start + limit;
}

std::string wire_key(std::string_view key) { return "/" + std::string(key); }

std::vector<std::string> wire_keys(const std::vector<std::string>& keys) {
  std::vector<std::string> out;
  out.reserve(keys.size());
  for (const std::string& key : keys) out.push_back(wire_key(key));
  return out;
}

Request make_request(Op op, std::string_view key) { return {op, {wire_key(key)}}; }

Request make_request(Op op, std::string_view key, std::string_view value) {
  return {op, {wire_key(key)}, {std::string(value)}};
}

// The store would close the connection without an error.
std::string too_large(const Request& request) {
  if (request.keys.size() > kCountMax)
    return std::to_string(request.keys.size()) + " keys at once, more than " + std::to_string(kCountMax);
  std::uint64_t bytes = 0;
  for (const std::string& key : request.keys) {
    bytes += sizeof bytes + key.size();
    if (key.size() > kKeyBytesMax)
      return "a key of " + std::to_string(key.size()) + " bytes, more than " + std::to_string(kKeyBytesMax);
  }
  for (const std::string& value : request.values) {
    bytes += sizeof bytes + value.size();
    if (value.size() > kValueBytesMax)
      return "a value of " + std::to_string(value.size()) + " bytes, more than " + std::to_string(kValueBytesMax);
  }
  if (bytes > kRequestBytesMax)
    return std::to_string(bytes) + " bytes at once, more than " + std::to_string(kRequestBytesMax);
  return {};
}

// 0.5 to 1.5 times `pause`: clients that start together must not retry together.
Duration with_jitter(Duration pause) {
  static thread_local std::minstd_rand random(std::random_device{}());
  return std::chrono::duration_cast<Duration>(pause * std::uniform_real_distribution(0.5, 1.5)(random));
}

std::string elapsed_since(TimePoint start) {
  return std::to_string(std::chrono::round<milliseconds>(Clock::now() - start).count()) + " ms";
}

std::string quoted(const std::vector<std::string>& keys) {
  std::string out;
  for (std::size_t i = 0; i < std::min(keys.size(), kKeysShown); ++i)
    out += (i ? ", '" : " '") + keys[i].substr(0, kKeyBytesShown) + "'";
  if (keys.size() > kKeysShown) out += " and " + std::to_string(keys.size() - kKeysShown) + " more";
  return out;
}

bool is_this_machine(const std::string& host) {
  return host == "localhost" || locality_of({.addresses = numeric_addresses(host)}) == Locality::local;
}

}  // namespace

// Every operation runs in here: one at a time, connected, with a deadline, and its failures turned into errors.
template <class Exchange>
auto Client::call(const char* what, const Keys& keys, Limit limit, Exchange exchange) {
  const TimePoint start = Clock::now(), deadline = after(start, limit.value_or(options_.timeout));
  std::unique_lock lock(mutex_, deadline);
  if (!lock) throw TimeoutError(describe(what, keys), "other calls held the connection for " + elapsed_since(start));
  try {
    if (!stream_) connect(deadline);
    return exchange(deadline);
  } catch (const WaitTimedOut&) {
    throw TimeoutError(describe(what, keys), "not there after " + elapsed_since(start));
  } catch (const TooLarge& too_large) {
    throw Error(describe(what, keys), too_large.what());
  } catch (const DeadlineExceeded& timeout) {
    stream_.reset();
    throw TimeoutError(describe(what, keys), timeout.what() + (" for " + elapsed_since(start)));
  } catch (const ConnectionError& error) {
    stream_.reset();
    throw Error(describe(what, keys), error.what() + (" after " + elapsed_since(start)));
  } catch (...) {  // e.g. no memory for the answer: its rest would be read as the next answer
    stream_.reset();
    throw;
  }
}

Client::Client(Options options) : options_(std::move(options)) {
  call("connect", {}, {}, [](TimePoint) {});
}

std::string Client::describe(const char* what, const Keys& keys) const {
  const bool v6 = options_.host.find(':') != std::string::npos;
  const std::string host = v6 ? "[" + options_.host + "]" : options_.host;
  return "store at " + host + ":" + std::to_string(options_.port) + ": cannot " + what + quoted(keys);
}

void Client::connect(TimePoint deadline) {
  for (Duration pause = kRetryFirst;; pause = std::min<Duration>(pause * 3 / 2, kRetryMax)) try {
      return connect_once(deadline);
    } catch (const ConnectionError& error) {
      stream_.reset();
      if (is_this_machine(options_.host) && !loopback_is_up())
        throw Error(describe("connect", {}), kLoopbackIsDown, kBringLoopbackUp);
      const TimePoint again = Clock::now() + with_jitter(pause);
      if (again >= deadline) throw DeadlineExceeded(error.what());
      std::this_thread::sleep_until(again);
    }
}

// The first bytes are sent in one write: PyTorch's server drops a client whose first five arrive in two pieces.
void Client::connect_once(TimePoint deadline) {
  stream_ = Stream::connect(options_.host, options_.port, deadline);
  stream_->write(encode({Op::validate, {}, {}, kMagic}) + encode({Op::ping, {}, {}, kNonce}), deadline);
  read_pong(deadline);
  if (!options_.count_me || counted_) return;
  send({Op::add, {"init/"}, {}, 1}, deadline);
  counted_ = true;
  stream_->read_u64(deadline);
}

void Client::read_pong(TimePoint deadline) {
  if (stream_->read_u32(deadline) != kNonce) throw ConnectionError("it does not answer as a store");
}

void Client::send(const Request& request, TimePoint deadline) {
  if (const std::string why = too_large(request); !why.empty()) throw TooLarge(why);
  stream_->write(encode(request), deadline);
}

// For WAIT and BARRIER: waits for the answer, or cancels the wait.
void Client::await_flag(const Request& request, TimePoint deadline) {
  send(request, deadline);
  try {
    if (stream_->read_byte(deadline) != static_cast<std::uint8_t>(Flag::stop_waiting))
      throw ConnectionError("an unexpected answer");
  } catch (const DeadlineExceeded&) {
    if (!cancel_wait()) throw WaitTimedOut();
  }
}

// True: the answer crossed the cancellation on its way, and has arrived.
bool Client::cancel_wait() {
  const TimePoint deadline = Clock::now() + kAnswerLimit;
  send({Op::cancel_wait}, deadline);
  const bool crossed = stream_->read_byte(deadline) == static_cast<std::uint8_t>(Flag::stop_waiting);
  if (crossed) stream_->read_byte(deadline);
  return crossed;
}

bool Client::keys_exist(const Keys& named, TimePoint deadline) {
  send({Op::check, named}, deadline);
  return stream_->read_byte(deadline) == static_cast<std::uint8_t>(Flag::ready);
}

// An empty value may also mean that the key does not exist: another client deleted it faster, or PyTorch's libuv server
// ended the wait for no reason. Then the wait continues.
std::vector<std::string> Client::wait_and_read(const Request& wait, Op op, TimePoint deadline) {
  for (;;) {
    await_flag(wait, deadline);
    const TimePoint answer_deadline = answer_by(deadline);
    send({op, wait.keys}, answer_deadline);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < wait.keys.size(); ++i) values.push_back(read_value(answer_deadline));
    const bool some_empty = std::any_of(values.begin(), values.end(), [](const auto& value) { return value.empty(); });
    if (!some_empty || keys_exist(wait.keys, answer_deadline)) return values;
    if (Clock::now() >= deadline) throw WaitTimedOut();
  }
}

std::string Client::read_value(TimePoint deadline) { return stream_->read_text(kReplyValueBytesMax, deadline); }

std::optional<std::string> Client::pop_value(const Request& pop, TimePoint deadline) {
  send(pop, deadline);
  if (stream_->read_u64(deadline) == 0) return {};
  return read_value(deadline);
}

void Client::call_without_reply(const char* what, const Request& request, Limit limit) {
  call(what, request.keys, limit, [&](TimePoint deadline) { send(request, deadline); });
}

std::int64_t Client::call_for_number(const char* what, const Request& request, Limit limit) {
  return call(what, request.keys, limit, [&](TimePoint deadline) {
    send(request, deadline);
    return static_cast<std::int64_t>(stream_->read_u64(deadline));
  });
}

void Client::set(std::string_view key, std::string_view value, Limit limit) {
  call_without_reply("set", make_request(Op::set, key, value), limit);
}

std::string Client::get(std::string_view key, Limit limit) {
  const Request wait = make_request(Op::wait, key);
  return call("get", wait.keys, limit,
              [&](TimePoint deadline) { return wait_and_read(wait, Op::get, deadline).front(); });
}

std::int64_t Client::add(std::string_view key, std::int64_t delta, Limit limit) {
  return call_for_number("add to", {Op::add, {wire_key(key)}, {}, delta}, limit);
}

void Client::append(std::string_view key, std::string_view value, Limit limit) {
  call_without_reply("append to", make_request(Op::append, key, value), limit);
}

std::string Client::compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                                Limit limit) {
  const Request request{Op::compare_set, {wire_key(key)}, {std::string(expected), std::string(desired)}};
  return call("compare and set", request.keys, limit, [&](TimePoint deadline) {
    send(request, deadline);
    return read_value(deadline);
  });
}

bool Client::delete_key(std::string_view key, Limit limit) {
  return call_for_number("delete", make_request(Op::delete_key, key), limit) == 1;
}

void Client::multi_set(const Keys& keys, const std::vector<std::string>& values, Limit limit) {
  if (keys.size() != values.size())
    throw Error(describe("set", keys),
                std::to_string(values.size()) + " values for " + std::to_string(keys.size()) + " keys");
  call_without_reply("set", {Op::multi_set, wire_keys(keys), values}, limit);
}

std::vector<std::string> Client::multi_get(const Keys& keys, Limit limit) {
  const Request wait{Op::wait, wire_keys(keys)};
  return call("get", wait.keys, limit,
              [&](TimePoint deadline) { return wait_and_read(wait, Op::multi_get, deadline); });
}

bool Client::check(const Keys& keys, Limit limit) {
  const Keys named = wire_keys(keys);
  return call("check", named, limit, [&](TimePoint deadline) { return keys_exist(named, deadline); });
}

void Client::wait(const Keys& keys, Limit limit) {
  const Request request{Op::wait, wire_keys(keys)};
  call("wait for", request.keys, limit, [&](TimePoint deadline) { await_flag(request, deadline); });
}

void Client::barrier(std::string_view key, std::int64_t world_size, Limit limit) {
  const Request request{Op::barrier, {wire_key(key)}, {}, world_size};
  call("pass the barrier", request.keys, limit, [&](TimePoint deadline) { await_flag(request, deadline); });
}

std::int64_t Client::num_keys(Limit limit) { return call_for_number("count the keys", {Op::num_keys}, limit); }

Client::Keys Client::list_keys(Limit limit) {
  return call("list the keys", {}, limit, [&](TimePoint deadline) {
    send({Op::list_keys}, deadline);
    const std::uint64_t count = stream_->read_u64(deadline);
    if (count > kListedKeysMax)
      throw ConnectionError("it announces " + std::to_string(count) + " keys, which makes no sense");
    Keys keys;
    for (std::uint64_t i = 0; i < count; ++i)
      if (const std::string key = read_value(deadline); key.starts_with('/')) keys.push_back(key.substr(1));
    return keys;
  });
}

void Client::queue_push(std::string_view key, std::string_view value, Limit limit) {
  call_without_reply("push to", make_request(Op::queue_push, key, value), limit);
}

std::string Client::queue_pop(std::string_view key, Limit limit) {
  const Request wait = make_request(Op::wait, key), pop = make_request(Op::queue_pop, key);
  return call("pop from", pop.keys, limit, [&](TimePoint deadline) {
    for (;;) {
      await_flag(wait, deadline);
      if (auto value = pop_value(pop, answer_by(deadline))) return *std::move(value);
      if (Clock::now() >= deadline) throw WaitTimedOut();  // another client was faster, each time
    }
  });
}

std::optional<std::string> Client::queue_try_pop(std::string_view key, Limit limit) {
  const Request pop = make_request(Op::queue_pop, key);
  return call("pop from", pop.keys, limit, [&](TimePoint deadline) { return pop_value(pop, deadline); });
}

std::int64_t Client::queue_len(std::string_view key, Limit limit) {
  return call_for_number("measure", make_request(Op::queue_len, key), limit);
}

void Client::ping(Limit limit) {
  call("ping", {}, limit, [&](TimePoint deadline) {
    send({Op::ping, {}, {}, kNonce}, deadline);
    read_pong(deadline);
  });
}

}  // namespace ddprun::rendezvous
