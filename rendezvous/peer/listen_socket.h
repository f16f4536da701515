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

// What errors call it, and the option that names its port.
struct ListenPurpose {
  const char* what = "the store";
  const char* option = "--master-port";
  bool zero_is_any = true;
};

// First and last are in it; 0: any port.
struct PortRange {
  std::uint16_t first = 0, last = 0;
};

// `address`: a numeric one, never looked up; empty: every address of this machine, IPv6 and IPv4. Port 0: any free one.
// Throws Error.
Listening open_listener(const std::string& address, std::uint16_t port, const ListenPurpose& purpose = {});
// Where it cannot be had, fd is -1 and `failed` says why.
Listening try_listener(const std::string& address, std::uint16_t port, std::error_code& failed);
// At the first free port behind `before`, from the range's beginning where that is no port of it. Throws Error.
Listening open_listener(const std::string& address, const PortRange& ports, std::uint16_t before,
                        const ListenPurpose& purpose = {.option = "--store-ports", .zero_is_any = false});

}  // namespace ddprun::rendezvous
