#include "rendezvous/peer/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"

namespace ddprun::rendezvous {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses numeric(const std::string& host, std::uint16_t port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) list = nullptr;
  return {list, freeaddrinfo};
}

// 0, or errno.
int try_listen(int fd, const addrinfo& address) {
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, address.ai_addr, address.ai_addrlen) != 0) return errno;
  return listen(fd, SOMAXCONN) == 0 ? 0 : errno;
}

// A listening socket, or -errno.
int listen_on(const addrinfo& address) {
  Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return -errno;
  const int error = try_listen(socket.get(), address);
  return error == 0 ? socket.release() : -error;
}

int listen_on(const std::string& host, std::uint16_t port) {
  const Addresses address = numeric(host, port);
  return address ? listen_on(*address) : -EADDRNOTAVAIL;
}

bool ipv6_unavailable(int result) { return result == -EAFNOSUPPORT || result == -EADDRNOTAVAIL; }

std::uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string address_text(const std::string& host, const std::string& ports) {
  if (host.empty()) return "port " + ports;
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + ports;
}

[[noreturn]] void throw_bind_error(const std::string& host, std::uint16_t port, int error,
                                   const ListenPurpose& purpose) {
  const std::string or_any = purpose.zero_is_any ? ", or 0 for any free one." : ".";
  std::string remedy;
  if (error == EADDRINUSE) remedy = std::string("Pass another ") + purpose.option + or_any;
  if (error == EACCES) remedy = std::string("Pass a ") + purpose.option + " above 1023" + or_any;
  if (error == EADDRNOTAVAIL) remedy = "Pass a numeric address of this machine.";
  throw Error(std::string("cannot bind ") + purpose.what + " to " + address_text(host, std::to_string(port)),
              std::generic_category().message(error), remedy);
}

// The same; an empty address means all addresses of this machine.
int bind_and_listen(const std::string& address, std::uint16_t port) {
  const int fd = listen_on(address.empty() ? "::" : address, port);
  return address.empty() && ipv6_unavailable(fd) ? listen_on("0.0.0.0", port) : fd;
}

}  // namespace

Listening open_listener(const std::string& address, std::uint16_t port, const ListenPurpose& purpose) {
  const int fd = bind_and_listen(address, port);
  if (fd < 0) throw_bind_error(address, port, -fd, purpose);
  return {fd, port_of(fd)};
}

Listening try_listener(const std::string& address, std::uint16_t port, std::error_code& failed) {
  const int fd = bind_and_listen(address, port);
  if (fd >= 0) return {fd, port_of(fd)};
  failed = {-fd, std::generic_category()};
  return {};
}

Listening open_listener(const std::string& address, const PortRange& ports, std::uint16_t before,
                        const ListenPurpose& purpose) {
  const unsigned count = ports.last - ports.first + 1u;
  const bool continues = before >= ports.first && before <= ports.last;
  const unsigned start = continues ? before - ports.first + 1u : 0;
  for (unsigned i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(ports.first + (start + i) % count);
    const int fd = bind_and_listen(address, port);
    if (fd >= 0) return {fd, port_of(fd)};
    if (fd != -EADDRINUSE) throw_bind_error(address, port, -fd, purpose);
  }
  throw Error(std::string("cannot bind ") + purpose.what + " to " +
                  address_text(address, std::to_string(ports.first) + " to " + std::to_string(ports.last)),
              "all these ports are in use", std::string("Name more of them by ") + purpose.option + ".");
}

}  // namespace ddprun::rendezvous
