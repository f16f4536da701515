// How much of the store's time and memory a peer may hold.
#pragma once
#include <chrono>
#include <cstddef>
#include <limits>

namespace ddprun::rendezvous {

struct ServerLimits {
  // The stock client sends its first bytes at once; this is for a machine that swaps.
  std::chrono::milliseconds validate_within{30'000};
  // How long a peer may read none of the bytes that wait for it. Generous: a debugger may have stopped it.
  std::chrono::milliseconds write_stall_max{60'000};
  // Above it, a peer's requests wait until it has read its replies.
  std::size_t output_bytes_pause = 1 << 20;
  // When one more comes, the one that has been silent for longest is evicted.
  std::size_t unvalidated_max = 1024;
  // One more is closed; its client tries again later.
  std::size_t connections_max = 65'536;
  // For keys and queues; beyond it nothing is added. Requests, replies and waits under way may take as much again.
  std::size_t memory_bytes_max = std::numeric_limits<std::size_t>::max();
  // Nodes whose proxies forward their workers' requests; one more is closed.
  std::size_t links_max = 16'384;
};

}  // namespace ddprun::rendezvous
