// What the load programs share: sockets of this machine, of which there may be thousands, one after the other, too.
#pragma once
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

namespace ddprun::bench {

[[noreturn]] inline void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

inline std::uint16_t port_of(const std::string& word) { return static_cast<std::uint16_t>(std::stoul(word)); }

inline sockaddr_in place_of(in_addr_t address, std::uint16_t port = 0) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  place.sin_addr.s_addr = htonl(address);
  return place;
}

// Closed on exec; the caller's to close. Throws std::system_error.
inline int tcp_socket(int flags = 0) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), on = 1;
  if (fd < 0) fail("socket");
  const linger reset_at_end{1, 0};  // or thousands of ports would stay taken for a minute
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset_at_end, sizeof reset_at_end);
  return fd;
}

// Where its connection comes from, as from another machine; with a port that is found when it connects.
inline bool bind_to(int fd, in_addr_t address) {
  const int on = 1;
  const sockaddr_in from = place_of(address);
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  return bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0;
}

inline bool connect_to(int fd, std::uint16_t port) {
  const sockaddr_in to = place_of(INADDR_LOOPBACK, port);
  return connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
}

}  // namespace ddprun::bench
