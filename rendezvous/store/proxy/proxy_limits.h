// What a store proxy may hold for the store on another node, besides its clients' limits (server_limits.h).
#pragma once
#include <chrono>
#include <cstddef>

namespace ddprun::rendezvous {

struct ProxyLimits {
  // Requests that wait to be sent; above this, clients' requests wait.
  std::size_t unsent_bytes_max = 16 << 20;
  // How long the store may read none of the bytes that wait for it before it counts as lost.
  std::chrono::milliseconds store_write_stall_max{60'000};
  // From the start to a connection to the store; clients wait this long.
  std::chrono::milliseconds connected_within{60'000};
};

}  // namespace ddprun::rendezvous
