// Which samples a rank sees in an epoch, in which order: exactly those of PyTorch's DistributedSampler.
//
// Source: torch/utils/data/distributed.py (pad or drop to a multiple of the world size, then every world_size-th index)
// and randperm_cpu in aten/src/ATen/native/TensorFactories.cpp (Fisher-Yates by mt19937 with the remainder of a
// division). Pure: equal arguments give equal indices on every machine, so ranks need not talk about the order.
#pragma once
#include <cstdint>
#include <vector>

namespace ddprun {

struct Sampling {
  std::int64_t dataset_size = 0;  // samples; at least 1, below kSamplesMax
  int rank = 0;
  int world_size = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;  // drop the tail that does not fill every rank, instead of repeating the head
};

// From here on PyTorch draws in another way.
inline constexpr std::int64_t kSamplesMax = 0xffffffffLL / 20;

// Every rank's part has the same length: ceil(dataset_size / world_size), or the floor with drop_last.
std::vector<std::int64_t> epoch_indices(const Sampling& sampling, std::int64_t epoch);

// The part of a test set a rank looks at: every world_size-th sample and no padding, so that none is counted twice.
std::vector<std::int64_t> evaluation_indices(std::int64_t dataset_size, int rank, int world_size);

// torch.randperm(n, generator=torch.Generator().manual_seed(seed))
std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed);

}  // namespace ddprun
