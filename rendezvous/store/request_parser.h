// Parses one connection's bytes into requests, however they are split.
//
// A value: no socket, no clock. It reads each byte once, and refuses a length over its limit before it stores a byte;
// memory grows with what arrived, not with what was announced. The first request must be a valid Op::validate, which it
// consumes; a second one is bad. After `bad` the stream has no meaning any more: close it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rendezvous/store/protocol.h"

namespace ddprun::rendezvous {

enum class Parsed { complete, need_more, bad };

class RequestParser {
 public:
  // Removes from the front of `bytes` what it used. After `complete` call take(), then feed() the rest.
  Parsed feed(std::string_view& bytes);
  Request take();
  bool validated() const { return validated_; }
  // Bytes of the incomplete request.
  std::size_t held_bytes() const { return held_bytes_; }

 private:
  enum class Field { op, count, length, text, number, none };

  bool fill(std::string_view& bytes);  // true once the current field is complete
  bool fill_text(std::string_view& bytes);
  bool advance();  // stores the field and selects the next one; false: bad
  bool begin_request();
  bool begin_items();
  bool begin_text();
  bool end_text();
  bool end_request();
  bool expect(Field field, std::size_t size);
  bool expect_item();

  std::uint64_t number() const;  // of the field just filled
  std::uint64_t limit() const;   // of the next text

  bool validated_ = false;
  bool bad_ = false;
  Field field_ = Field::op;
  std::size_t field_size_ = 1;
  std::size_t have_ = 0;  // bytes of the field so far
  std::array<char, 8> scratch_{};
  Request request_;
  std::uint64_t request_bytes_ = 0;  // announced so far
  std::size_t held_bytes_ = 0;
  std::uint64_t items_left_ = 0;
  std::size_t part_ = 0;  // of the item
};

}  // namespace ddprun::rendezvous
