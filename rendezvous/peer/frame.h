// Messages on a stream of bytes: each is its length (four bytes, little-endian) and then that many bytes.
//
// A value. A length over the limit is refused before a byte of the message is stored.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::rendezvous {

// The round record of 4,000 nodes takes a tenth of it.
constexpr std::size_t kFrameBytesMax = 4 << 20;

// `message`: at most kFrameBytesMax.
std::string framed(std::string_view message);

class FrameReader {
 public:
  void add(std::string_view bytes);
  // The next whole message, oldest first.
  std::optional<std::string> next();
  // The peer announced a message over the limit: the bytes after it have no meaning.
  bool broken() const { return broken_; }

 private:
  std::string bytes_;
  std::size_t read_ = 0;  // bytes already returned
  bool broken_ = false;
};

}  // namespace ddprun::rendezvous
