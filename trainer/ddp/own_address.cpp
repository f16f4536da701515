#include "trainer/ddp/own_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <climits>
#include <fstream>
#include <memory>

namespace ddprun {

std::string own_address_towards(const std::string& host, std::uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  char text[NI_MAXHOST] = "";
  if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 && getsockname(fd, address, &size) == 0)
    getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  if (fd >= 0) close(fd);
  return text;
}

std::string machine_identity() {
  char host[HOST_NAME_MAX + 1] = "", network[64] = "";
  gethostname(host, sizeof host - 1);
  if (readlink("/proc/self/ns/net", network, sizeof network - 1) < 0) network[0] = '\0';
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return std::string(host) + " " + boot + " " + network;
}

}  // namespace ddprun
