// How much a store proxy holds for the store far away, beside what its clients may hold (server_limits.h).
#pragma once
#include <chrono>
#include <cstddef>

namespace ddprun::rendezvous {

struct ProxyLimits {
  // Requests that wait to be sent; above it, clients wait with theirs.
  std::size_t unsent_bytes_max = 16 << 20;
  // How long the store may take none of the bytes that wait for it before it counts as lost.
  std::chrono::milliseconds store_deaf_for_max{60'000};
  // From the start to a connection to the store; its clients wait so long.
  std::chrono::milliseconds connected_within{60'000};
};

}  // namespace ddprun::rendezvous
