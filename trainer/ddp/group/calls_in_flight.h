// What ends the collectives of this process that wait for a lost peer, from another thread.
#pragma once
#include <atomic>

namespace ddprun {

// Null: nothing has to, as gloo's calls end with the peer's sockets. Set while the default group is one of NCCL, whose
// host waits for the GPU, and the GPU for the peer. May be called at any time, in any thread.
inline std::atomic<void (*)()> abort_calls_in_flight{nullptr};

}  // namespace ddprun
