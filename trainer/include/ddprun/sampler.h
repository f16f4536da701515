// Which samples a rank sees in an epoch, in which order: exactly as PyTorch's DistributedSampler. It also keeps the
// position in the epoch, which survives a restart on any number of ranks.
//
// Source: torch/utils/data/distributed.py (pad or drop to a multiple of the world size, then every world_size-th index)
// and randperm_cpu in aten/src/ATen/native/TensorFactories.cpp (Fisher-Yates by mt19937 with the remainder of a
// division). Pure: equal arguments give equal indices on every machine, so ranks need not communicate the order.
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
  bool drop_last = false;  // drop the incomplete tail instead of padding it with the first samples
};

// From this size on PyTorch uses another algorithm.
inline constexpr std::int64_t kSamplesMax = 0xffffffffLL / 20;

// A job's position in its data: equal on all ranks, so one of them can save it for all.
struct SamplerState {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;  // samples of this epoch consumed by all ranks together
  // What determines the epoch's order.
  std::int64_t dataset_size = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;

  bool operator==(const SamplerState&) const = default;
};

// A value. Every rank has one and calls the same functions in the same order.
//
// The ranks take from one order of the whole epoch, world_size samples at a time. So after steps of equal size on all
// ranks, the consumed samples are a prefix of that order, and the rest can be distributed to any number of ranks: each
// sample is seen once, and only the epoch's last, incomplete group is padded from the start of the order (or dropped).
class DistributedSampler {
 public:
  // Throws if no epoch is possible: no samples, a rank outside the world, drop_last with fewer samples than ranks.
  // (Without drop_last, samples are repeated if there are fewer than ranks, as in PyTorch.)
  explicit DistributedSampler(const Sampling& sampling);

  const Sampling& sampling() const { return sampling_; }
  std::int64_t epoch() const { return epoch_; }
  // Begins that epoch. If already in it, keeps the position, so a loop may call this after resume(), too.
  void set_epoch(std::int64_t epoch);

  // Samples each rank still has in this epoch, the same number on all ranks; 0: the epoch is over.
  std::int64_t size() const;
  // This rank's remaining samples, in order. Computes the whole epoch's order: call it once per epoch, not per step.
  std::vector<std::int64_t> indices() const;
  // Every rank has trained on its next `samples_per_rank`. Throws if fewer are left.
  void advance(std::int64_t samples_per_rank);

  SamplerState state() const;
  // Continues from a state, whatever the number of ranks that wrote it. Throws if it is from within an epoch in another
  // order: of another data set, seed or shuffle. At an epoch's beginning only its epoch counts.
  void resume(const SamplerState& state);

 private:
  Sampling sampling_;
  std::int64_t epoch_ = 0;
  std::int64_t consumed_ = 0;
};

// Every rank gets the same number: ceil(dataset_size / world_size), or the floor with drop_last.
std::vector<std::int64_t> epoch_indices(const Sampling& sampling, std::int64_t epoch);

// A rank's part of a test set: every world_size-th sample and no padding, so that none is counted twice.
std::vector<std::int64_t> evaluation_indices(std::int64_t dataset_size, int rank, int world_size);

// torch.randperm(n, generator=torch.Generator().manual_seed(seed))
std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed);

}  // namespace ddprun
#pragma GCC visibility pop
