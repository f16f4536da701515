// A blocking TCP connection with a deadline on everything: look-up, connect, read, write.
//
// What is possible without waiting is done even after the deadline, so a deadline of now means without waiting. After
// an exception the stream's position is unknown, except for a late read_byte: close it.
//
// Not thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/stream_error.h"
#include "rendezvous/base/time.h"

namespace ddprun::rendezvous {

class Stream {
 public:
  // Takes names and addresses, IPv6 and IPv4. One attempt; throws ConnectionError if no address of `host` answers.
  static Stream connect(const std::string& host, std::uint16_t port, TimePoint deadline);

  void write(std::string_view bytes, TimePoint deadline);
  std::uint8_t read_byte(TimePoint deadline);
  std::uint64_t read_u64(TimePoint deadline);
  std::uint32_t read_u32(TimePoint deadline);
  // A u64 length and the bytes. A length above `size_max` is ConnectionError; memory grows with what arrives.
  std::string read_text(std::size_t size_max, TimePoint deadline);

 private:
  explicit Stream(Fd fd) : fd_(std::move(fd)) {}
  void read(char* to, std::size_t size, TimePoint deadline);
  void refill(TimePoint deadline);

  Fd fd_;
  std::string buffer_;  // received; unread from taken_ on
  std::size_t taken_ = 0;
};

}  // namespace ddprun::rendezvous
