// Opens the socket that a store or an agent listens on.
#pragma once
#include <cstdint>
#include <string>
#include <system_error>

namespace ddprun::rendezvous {

struct Listening {
  int fd = -1;  // non-blocking, closed on exec; the caller's to close
  std::uint16_t port = 0;
};

// Its name in errors, and the option that sets its port.
struct ListenPurpose {
  const char* what = "the store";
  const char* option = "--master-port";
  bool zero_is_any = true;
};

// Inclusive; 0: any port.
struct PortRange {
  std::uint16_t first = 0, last = 0;
};

// `address`: numeric, never looked up; empty: all addresses of this machine, IPv6 and IPv4. Port 0: any free one.
// Throws Error.
Listening open_listener(const std::string& address, std::uint16_t port, const ListenPurpose& purpose = {});
// On failure fd is -1 and `failed` says why.
Listening try_listener(const std::string& address, std::uint16_t port, std::error_code& failed);
// On the first free port after `before`, or from the range's start if `before` is outside it. Throws Error.
Listening open_listener(const std::string& address, const PortRange& ports, std::uint16_t before,
                        const ListenPurpose& purpose = {.option = "--store-ports", .zero_is_any = false});

}  // namespace ddprun::rendezvous
