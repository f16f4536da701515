// Epochs that are trained in stages, by other ranks in each of them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/catch.h"

namespace ddprun::test {

struct Stage {
  int world_size = 1;
  std::int64_t batch = 1;
  int steps_max = 0;
};

constexpr int kToTheEnd = 1 << 30;

// Trains through one epoch, each stage resumed from the one before; gives what all ranks saw, step by step.
// `make_sampler` takes a rank and the world's size.
template <class Make>
std::vector<std::int64_t> seen_in_stages(std::int64_t epoch, const std::vector<Stage>& stages,
                                         const Make& make_sampler) {
  std::vector<std::int64_t> seen;
  auto saved = make_sampler(0, 1).state();
  saved = {.epoch = epoch};
  for (const auto& stage : stages) {
    std::vector<decltype(make_sampler(0, 1))> ranks;
    std::vector<std::vector<std::int64_t>> parts;
    for (int rank = 0; rank < stage.world_size; ++rank) {
      ranks.push_back(make_sampler(rank, stage.world_size));
      ranks.back().resume(saved);
      ranks.back().set_epoch(epoch);
      parts.push_back(ranks.back().indices());
      REQUIRE(static_cast<std::int64_t>(parts.back().size()) == ranks[0].size());
    }
    std::size_t at = 0;
    for (int step = 0; step < stage.steps_max && ranks[0].size() > 0; ++step) {
      const auto batch = std::min(stage.batch, ranks[0].size());
      for (std::int64_t i = 0; i < batch; ++i, ++at)
        for (const auto& part : parts) seen.push_back(part[at]);
      for (auto& rank : ranks) rank.advance(batch);
    }
    saved = ranks[0].state();
    for (const auto& rank : ranks) REQUIRE(rank.state() == saved);
  }
  return seen;
}

// How often each of `size` samples was seen.
inline std::vector<int> counts(const std::vector<std::int64_t>& seen, std::int64_t size) {
  std::vector<int> result(static_cast<std::size_t>(size));
  for (const auto index : seen) ++result.at(static_cast<std::size_t>(index));
  return result;
}

}  // namespace ddprun::test
