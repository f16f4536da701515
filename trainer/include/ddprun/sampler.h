// Which samples a rank sees in an epoch, in which order: exactly those of PyTorch's DistributedSampler; and the place
// in the epoch, which outlives a restart on any number of ranks.
//
// Source: torch/utils/data/distributed.py (pad or drop to a multiple of the world size, then every world_size-th index)
// and randperm_cpu in aten/src/ATen/native/TensorFactories.cpp (Fisher-Yates by mt19937 with the remainder of a
// division). Pure: equal arguments give equal indices on every machine, so ranks need not talk about the order.
//
// Errors are exceptions whose what() is one sentence for a person.
#pragma once
#include <cstdint>
#include <vector>

#pragma GCC visibility push(default)
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

// Where a job stands in its data: equal on all ranks, so one of them can save it for all.
struct SamplerState {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;  // samples of this epoch that all ranks together have had
  // What the epoch's order follows from.
  std::int64_t dataset_size = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;

  bool operator==(const SamplerState&) const = default;
};

// A value; owns nothing but numbers. Every rank has one and calls the same functions in the same order.
//
// The ranks take from one order of the whole epoch, world_size samples at a time. So after steps of equal size on all
// ranks, what was consumed is a head of that order, and what is left can be dealt out to any number of ranks: each
// sample is seen once, and only the epoch's last deal is padded with the order's head (or dropped).
class DistributedSampler {
 public:
  // Throws where no epoch is possible: no samples, a rank outside the world, drop_last with fewer samples than ranks.
  // (Without drop_last fewer samples than ranks are repeated, as in PyTorch.)
  explicit DistributedSampler(const Sampling& sampling);

  const Sampling& sampling() const { return sampling_; }
  std::int64_t epoch() const { return epoch_; }
  // Begins that epoch. In it already: goes on where it is, so a loop may call this after resume(), too.
  void set_epoch(std::int64_t epoch);

  // Samples each rank still has in this epoch, the same number everywhere; 0: it is over.
  std::int64_t size() const;
  // This rank's, in their order. Draws the whole epoch's order: once per epoch, not once per step.
  std::vector<std::int64_t> indices() const;
  // Every rank has trained on its next `samples_per_rank`. Throws where it has not so many.
  void advance(std::int64_t samples_per_rank);

  SamplerState state() const;
  // Goes on from a state, whatever the number of ranks that wrote it. Throws where it is from the midst of an epoch in
  // another order: of another data set, seed or shuffle. At an epoch's beginning only its epoch counts.
  void resume(const SamplerState& state);

 private:
  Sampling sampling_;
  std::int64_t epoch_ = 0;
  std::int64_t consumed_ = 0;
};

// Every rank's part has the same length: ceil(dataset_size / world_size), or the floor with drop_last.
std::vector<std::int64_t> epoch_indices(const Sampling& sampling, std::int64_t epoch);

// The part of a test set a rank looks at: every world_size-th sample and no padding, so that none is counted twice.
std::vector<std::int64_t> evaluation_indices(std::int64_t dataset_size, int rank, int world_size);

// torch.randperm(n, generator=torch.Generator().manual_seed(seed))
std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed);

}  // namespace ddprun
#pragma GCC visibility pop
