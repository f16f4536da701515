#include "rendezvous/peer/loopback.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "rendezvous/base/fd.h"

namespace ddprun {

bool loopback_is_up() {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq asked{};
  std::strcpy(asked.ifr_name, "lo");
  if (!socket || ioctl(socket.get(), SIOCGIFFLAGS, &asked) != 0) return true;
  return (asked.ifr_flags & IFF_UP) != 0;
}

}  // namespace ddprun
