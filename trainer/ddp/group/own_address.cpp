#include "trainer/ddp/group/own_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>

#include "rendezvous/base/fd.h"
#include "rendezvous/peer/loopback.h"
#include "rendezvous/peer/resolve.h"

namespace ddprun {
namespace {

constexpr const char* kOutsideAddress = "192.0.2.1";  // of no machine (RFC 5737), routed by default
constexpr std::uint16_t kAnyPort = 9;
constexpr std::chrono::seconds kResolveLimit{6};  // after 5 s the C library asks the next name server

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

std::optional<rendezvous::Address> resolve_in_time(const std::string& host, std::uint16_t port) {
  if (host.empty()) return {};
  try {
    return rendezvous::resolve(host, port, Clock::now() + kResolveLimit).front();
  } catch (const std::runtime_error&) {  // too late, or no such host
    return {};
  }
}

}  // namespace

std::string own_address_towards(const std::string& host, std::uint16_t port) {
  const std::optional<rendezvous::Address> found = resolve_in_time(host, port);
  if (!found) return "";
  const Fd fd(socket(found->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  char text[NI_MAXHOST] = "";
  if (fd && connect(fd.get(), found->get(), found->size) == 0 && getsockname(fd.get(), address, &size) == 0)
    getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

std::string own_address_for_other_machines(const std::string& host, std::uint16_t port) {
  std::string first;
  for (const auto& own :
       {own_address_towards(host, port), own_address_towards(kOutsideAddress, kAnyPort), address_of_any_interface()}) {
    if (!own.empty() && !rendezvous::is_loopback(own)) return own;
    if (first.empty()) first = own;
  }
  return first;  // there is no other
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
