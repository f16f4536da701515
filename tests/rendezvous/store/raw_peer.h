// A bare socket that says to a store what no decent client would.
//
// Blocking, each step with a limit of 10 s; what fails throws std::runtime_error.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/store/protocol.h"

namespace ddprun::test {

class RawPeer {
 public:
  // `source`: our own address, where it matters.
  explicit RawPeer(std::uint16_t port, const std::string& address = "127.0.0.1", const char* source = nullptr);
  RawPeer(RawPeer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawPeer& operator=(RawPeer&&) = delete;
  ~RawPeer();

  RawPeer& greet();  // Op::validate, and a PING to know that it was taken
  RawPeer& send(std::string_view bytes);
  RawPeer& send(const rendezvous::Request& request) { return send(encode(request)); }
  // Sends over and over until the socket takes no more for `quiet`; how many bytes it took.
  std::size_t send_until_stuck(std::string_view bytes, std::chrono::milliseconds quiet);
  std::string receive(std::size_t size);
  std::string receive_value();
  std::int64_t receive_number();
  // Whether it is closed, by EOF or reset, before `limit`; bytes that come first are dropped.
  bool closed_within(std::chrono::milliseconds limit);
  // By the other side, though bytes of it were not read: a write fails in the end.
  bool refuses_writes_within(std::chrono::milliseconds limit);
  bool silent_for(std::chrono::milliseconds quiet);
  void receive_buffer(int bytes);
  void end_input();  // FIN; replies can still be received
  void reset();      // RST

 private:
  int fd_ = -1;
};

}  // namespace ddprun::test
