// The bytes that are still to be sent to one client.
//
// A value. Small pieces are copied together, so that many replies leave in one write; a large value is held by
// reference, so that a thousand clients can read it without a copy. When empty it keeps room for a small reply: both
// idle connections and replies are many.
#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <list>
#include <span>
#include <string>
#include <string_view>

#include "rendezvous/store/protocol.h"

namespace ddprun::rendezvous {

class OutputQueue {
 public:
  static constexpr std::size_t kSharedFrom = 16 << 10;  // below this, a copy is cheaper than one more piece

  // Not for CloseConnection, which has no bytes.
  void append(const Reply& reply);
  // Bytes as they are.
  void append_bytes(std::string_view bytes);
  void append_bytes(const Value& bytes);
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Bytes in its own memory: without values held by reference.
  std::size_t own_bytes() const { return own_bytes_ + later_.size() * kPieceBytes; }
  // What to write next: fills `pieces` from the front, and returns how many. They are valid until the next change, and
  // only to be read.
  std::size_t next(std::span<iovec> pieces) const;
  // `count` bytes have been written.
  void consume(std::size_t count);

 private:
  struct Piece {
    std::string own;
    Value shared;  // used instead if set
    std::string_view bytes() const { return shared ? *shared : own; }
  };
  static constexpr std::size_t kPieceBytes = sizeof(Piece) + 32;
  Piece& last() { return later_.empty() ? first_ : later_.back(); }
  void drop_first();
  void append_number(std::uint64_t number, std::size_t size);
  void append_values(const Values& values);
  void append_value(const Value& value);

  Piece first_;
  std::list<Piece> later_;   // unlike a deque, it needs no memory while it is empty
  std::size_t written_ = 0;  // of the first piece
  std::size_t size_ = 0;
  std::size_t own_bytes_ = 0;
};

}  // namespace ddprun::rendezvous
