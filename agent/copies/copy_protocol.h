// The protocol between two agents that copy snapshots in memory, over one connection: heads of a fixed size, and after
// that of a snapshot its content in chunks. docs/internals/control-protocol.md describes it for people.
//
// Pure values; no socket, no clock. Integers are little-endian.
//   head     a kind, u64 the sender's round, u64 round, step, rank and world size of the snapshot, u64 bytes, u32 place
//   chunk    u32 size, that many bytes; size 0: the snapshot is whole; kGivenUp: it has been replaced meanwhile
// Neither has a checksum: TCP has one, TLS authenticates, and the sender checks after each chunk that the snapshot is
// still the same.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/memory/copy_memory.h"

namespace ddprun::agent {

enum class CopyKind : std::uint8_t {
  snapshot = 's',  // its chunks follow
  want = 'w',      // send me that one
  none = 'n',      // the answer: it is not here
  arrived = 'a',   // the answer to a snapshot: it is whole
  refused = 'r',   // it does not fit here
};

struct CopyHead {
  CopyKind kind = CopyKind::want;
  std::uint64_t round = 0;  // the sender's current one
  CopyLabel label = {};
  std::uint64_t bytes = 0;  // of a snapshot; else 0
  std::uint32_t place = 0;  // of a snapshot: its rank's local rank at the sender; else 0
  friend bool operator==(const CopyHead&, const CopyHead&) = default;
};

constexpr std::uint32_t kCopyChunkMax = 256 << 10, kGivenUp = ~std::uint32_t{0};

std::string encode(const CopyHead& head);
// What comes before a chunk of 1 to kCopyChunkMax bytes.
std::string encode_chunk_head(std::uint32_t size);
std::string encode_end(bool whole);

// A head, a piece of the content of the last head, or its end.
struct CopyPart {
  enum class Kind { head, content, whole, given_up } kind = Kind::head;
  CopyHead head;
  std::string_view bytes = {};  // part of the bytes that were fed
};

class CopyReader {
 public:
  // Removes from the front of `bytes` what it used. Empty: more are needed, or they are bad.
  std::optional<CopyPart> next(std::string_view& bytes);
  // The following bytes have no meaning.
  bool bad() const { return bad_; }

 private:
  std::optional<CopyPart> take_head(std::string_view& bytes);
  std::optional<CopyPart> take_chunk(std::string_view& bytes);
  std::optional<CopyPart> end_of(std::uint32_t size);
  std::optional<CopyPart> end(CopyPart::Kind kind);

  std::string fixed_;  // what has come of a head or of a chunk's size
  std::optional<CopyHead> head_;
  std::uint64_t left_ = 0;        // of the snapshot
  std::uint32_t chunk_left_ = 0;  // of the chunk
  bool bad_ = false;
};

}  // namespace ddprun::agent
