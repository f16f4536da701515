#include "agent/tell/memory_relief.h"

#include <csignal>

#include "agent/diagnosis/oom_count.h"

namespace ddprun::agent {

// A GPU's memory, and an allocation that a limit of the process refused, have nothing to do with ours.
MemoryRelief relief_after(const rendezvous::Failure& failure, bool progressed, std::uint64_t bytes) {
  const bool by_kernel = failure.status.signal == SIGKILL || failure.status.code == 128 + SIGKILL;
  if (bytes == 0 || !by_kernel || failure.kind != rendezvous::FailureClass::out_of_memory) return MemoryRelief::none;
  return progressed ? MemoryRelief::kept : MemoryRelief::given_back;
}

std::string in_words(MemoryRelief relief, std::uint64_t bytes) {
  const std::string what = bytes_in_words(bytes) + " of this node's memory hold snapshots (--memory-snapshots)";
  if (relief == MemoryRelief::kept)
    return what + "; they are kept for the restart, and given back if memory runs out again before it makes progress";
  if (relief == MemoryRelief::given_back)
    return what +
           "; they are given back, as the round made no progress with them: its ranks go on from an older snapshot";
  return {};
}

}  // namespace ddprun::agent
