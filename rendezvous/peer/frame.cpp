#include "rendezvous/peer/frame.h"

#include <cstdint>

#include "rendezvous/base/error.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kLengthBytes = 4;

std::size_t length_at(std::string_view bytes) {
  std::uint32_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  return length;
}

}  // namespace

std::string framed(std::string_view message) {
  check(message.size() <= kFrameBytesMax, "no message is larger than a frame may be");
  std::string out;
  out.reserve(kLengthBytes + message.size());
  for (std::size_t i = 0; i < kLengthBytes; ++i) out += static_cast<char>(message.size() >> (8 * i) & 0xff);
  out += message;
  return out;
}

void FrameReader::add(std::string_view bytes) {
  bytes_.erase(0, read_);
  read_ = 0;
  if (!broken_) bytes_ += bytes;
}

std::optional<std::string> FrameReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(read_);
  if (broken_ || rest.size() < kLengthBytes) return {};
  const std::size_t length = length_at(rest);
  if (length > kFrameBytesMax) {
    broken_ = true;
    return {};
  }
  if (rest.size() < kLengthBytes + length) return {};
  read_ += kLengthBytes + length;
  return std::string(rest.substr(kLengthBytes, length));
}

}  // namespace ddprun::rendezvous
