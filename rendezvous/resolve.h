// Looks up a host with a deadline.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/time.h"

namespace ddprun {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Never empty. Throws Late, or Broken (stream.h) where there is no such host. A numeric address asks nobody; a name is
// looked up in a thread that is left behind at the deadline, because the C library's look-up cannot be stopped.
std::vector<Address> resolve(const std::string& host, std::uint16_t port, TimePoint deadline);

}  // namespace ddprun
