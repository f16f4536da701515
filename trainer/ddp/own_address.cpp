#include "trainer/ddp/own_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <fstream>
#include <memory>

namespace ddprun {
namespace {

constexpr const char* kAnyoneOutside = "192.0.2.1";  // an address of no machine (RFC 5737), on the default route's way
constexpr std::uint16_t kAnyPort = 9;

// IPv4 before IPv6, whose link-local addresses need an interface's name.
std::string address_of_any_interface() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* one = all; one; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != family) continue;
      if (!(one->ifa_flags & IFF_UP) || (one->ifa_flags & IFF_LOOPBACK)) continue;
      char text[NI_MAXHOST] = "";
      const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (getnameinfo(one->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
      if (!std::strchr(text, '%')) return text;
    }
  return "";
}

}  // namespace

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

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

std::string own_address_for_other_machines(const std::string& host, std::uint16_t port) {
  std::string first;
  for (const auto& own :
       {own_address_towards(host, port), own_address_towards(kAnyoneOutside, kAnyPort), address_of_any_interface()}) {
    if (!own.empty() && !is_loopback(own)) return own;
    if (first.empty()) first = own;
  }
  return first;  // there is no other one
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
