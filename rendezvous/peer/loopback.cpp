#include "rendezvous/peer/loopback.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>

#include "rendezvous/base/fd.h"
#include "rendezvous/peer/resolve.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::uint8_t kNetwork = 127;
constexpr std::size_t kMappedAt = 12;  // where an IPv6 address holds a mapped IPv4 one

}  // namespace

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == kNetwork;
  if (address.ss_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[kMappedAt] == kNetwork);
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  const auto addresses = numeric_addresses(host);
  return !addresses.empty() && is_loopback(addresses.front().storage);
}

bool loopback_is_up() {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  if (!socket || ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return true;
  return (request.ifr_flags & IFF_UP) != 0;
}

}  // namespace ddprun::rendezvous
