// Opens the socket a store listens on.
#pragma once
#include <cstdint>
#include <string>

namespace ddprun {

struct Listening {
  int fd = -1;  // non-blocking, closed on exec; the caller's to close
  std::uint16_t port = 0;
};

// `address`: a numeric one, never looked up; empty: every address of this machine, IPv6 and IPv4. Port 0: any free one.
// Throws Error.
Listening open_listener(const std::string& address, std::uint16_t port);

}  // namespace ddprun
