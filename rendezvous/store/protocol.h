// The store's wire protocol, which is PyTorch's TCPStore protocol: requests, replies, and their limits.
// docs/internals/store-protocol.md describes it for people.
//
// Pure values; no socket, no clock. A request is an op byte and its arguments. A reply has no frame: its reader knows
// what it asked. Integers are little-endian, strings are a u64 length and the bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::rendezvous {

enum class Op : std::uint8_t {
  validate,
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  num_keys,
  delete_key,
  append,
  multi_get,
  multi_set,
  cancel_wait,
  ping,
  queue_push,
  queue_pop,
  queue_len,
  list_keys,
  barrier,
};
constexpr std::uint8_t kOpCount = 19;
constexpr const char* kOpNames[kOpCount] = {"validate",  "set",       "compare_set", "get",        "add",
                                            "check",     "wait",      "num_keys",    "delete_key", "append",
                                            "multi_get", "multi_set", "cancel_wait", "ping",       "queue_push",
                                            "queue_pop", "queue_len", "list_keys",   "barrier"};

// The first three are the stock server's, which has no equivalent of the last; that holds 32 values of the largest
// size, or 131,072 keys of 2 KiB.
constexpr std::uint64_t kKeyBytesMax = 8192;
constexpr std::uint64_t kValueBytesMax = 8 << 20;
constexpr std::uint64_t kCountMax = 131'072;
constexpr std::uint64_t kRequestBytesMax = 257ull << 20;

// The first five bytes of every connection are Op::validate and this.
constexpr std::uint32_t kMagic = 0x3C85F7CE;

struct Request {
  Op op = Op::ping;
  std::vector<std::string> keys = {};
  std::vector<std::string> values = {};  // compare_set: expected, desired; multi_set: one per key
  std::int64_t number = 0;               // add: delta; barrier: world size; ping: nonce; validate: magic

  friend bool operator==(const Request&, const Request&) = default;
};

// Which arguments an op has on the wire, in this order.
struct Shape {
  std::string_view item;         // 'k' a key, 'v' a value
  bool counted = false;          // a u64 count, then that many items; else exactly one
  std::uint8_t number_size = 0;  // bytes of the number after the items
};
const Shape& shape_of(Op op);
std::string encode(const Request& request);

// Immutable and shared: a reply with a large value holds the store's own bytes.
using Value = std::shared_ptr<const std::string>;

enum class Flag : std::uint8_t { ready = 0, not_ready = 1, stop_waiting = 0, wait_canceled = 1 };
struct Number {
  std::int64_t value = 0;
};
struct Nonce {
  std::uint32_t value = 0;
};
struct Values {
  std::optional<std::int64_t> count = {};  // sent before the values, for some ops
  std::vector<Value> values = {};
};
struct CloseConnection {  // the protocol's only error reply: close the connection
  enum class Why { bad_request, store_full, too_much_under_way } why = Why::bad_request;
};

using Reply = std::variant<Flag, Number, Nonce, Values, CloseConnection>;

}  // namespace ddprun::rendezvous
