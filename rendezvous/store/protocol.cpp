#include "rendezvous/store/protocol.h"

#include <array>
#include <bit>

namespace ddprun::rendezvous {
namespace {

static_assert(std::endian::native == std::endian::little, "integers are copied to and from the wire as they are");

constexpr std::array<Shape, kOpCount> kShapes = {{
    {"", false, 4},     // validate
    {"kv", false, 0},   // set
    {"kvv", false, 0},  // compare_set
    {"k", false, 0},    // get
    {"k", false, 8},    // add
    {"k", true, 0},     // check
    {"k", true, 0},     // wait
    {"", false, 0},     // num_keys
    {"k", false, 0},    // delete_key
    {"kv", false, 0},   // append
    {"k", true, 0},     // multi_get
    {"kv", true, 0},    // multi_set
    {"", false, 0},     // cancel_wait
    {"", false, 4},     // ping
    {"kv", false, 0},   // queue_push
    {"k", false, 0},    // queue_pop
    {"k", false, 0},    // queue_len
    {"", false, 0},     // list_keys
    {"k", false, 8},    // barrier
}};

void put_number(std::string& out, std::uint64_t number, std::size_t size = sizeof(std::uint64_t)) {
  out.append(reinterpret_cast<const char*>(&number), size);
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, text.size());
  out.append(text);
}

}  // namespace

const Shape& shape_of(Op op) { return kShapes.at(static_cast<std::size_t>(op)); }

std::string encode(const Request& request) {
  const Shape& shape = shape_of(request.op);
  std::string out(1, static_cast<char>(request.op));
  if (shape.counted) put_number(out, request.keys.size());
  auto value = request.values.begin();
  for (const std::string& key : request.keys) {
    put_text(out, key);
    for (std::size_t i = 1; i < shape.item.size(); ++i) put_text(out, *value++);
  }
  put_number(out, static_cast<std::uint64_t>(request.number), shape.number_size);
  return out;
}

}  // namespace ddprun::rendezvous
