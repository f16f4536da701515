// The deals of the sampler's tour, as its ranks gather them.
#pragma once
#include "trainer/tour/deal.h"

namespace ddprun::test {

inline std::vector<train::Deal> deals_of(int world, std::int64_t samples = train::kTourSamples) {
  std::vector<train::Shares> by_rank(static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank)
    for (const train::Deal& deal : train::deals_of_rank(rank, world, samples))
      by_rank[static_cast<std::size_t>(rank)].push_back(deal.shares.front());
  return train::gathered(train::deals_of_rank(0, world, samples), by_rank);
}

}  // namespace ddprun::test
