// Whether a node's snapshots in memory stay after a worker's failure (docs/decisions/059). Pure.
#pragma once
#include <cstdint>
#include <string>

#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

enum class MemoryRelief {
  none,       // it did not fail for memory of the machine, or there are no snapshots
  kept,       // its round had got on with them: they are the newest state
  given_back  // its round began with them, and did not get on
};
// `progressed`: its round had. `bytes`: that the node's snapshots take now.
MemoryRelief relief_after(const rendezvous::Failure& failure, bool progressed, std::uint64_t bytes);

// A sentence without its end; empty for none.
std::string in_words(MemoryRelief relief, std::uint64_t bytes);

}  // namespace ddprun::agent
