// Which records of a sharded data set a rank sees, in which order, so that each rank reads few shards.
//
// The shards are shuffled, and the records within them; the ranks get equal, contiguous parts of the result. So a rank
// has whole shards and shares only its first and last with neighbouring ranks; every rank has the same number of
// samples and batches, whatever the shards' sizes. The samples are not as well mixed as DistributedSampler's;
// mixed_shards improves that.
//
// Pure, like DistributedSampler, and used in the same way.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

struct ShardSampling {
  int rank = 0;
  int world_size = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;  // drop the samples that only some ranks would get, instead of padding the other ranks
  // Number of shards whose records are shuffled together and read concurrently; ShardedDataset keeps 64 open.
  int mixed_shards = 1;
};

// A job's position in its data: equal on all ranks, so one of them can save it for all.
struct ShardSamplerState {
  // The epoch was dealt to `world_size` ranks, and each took `taken` of its samples.
  struct Deal {
    int world_size = 1;
    std::int64_t taken = 0;
    bool drop_last = false;
    bool operator==(const Deal&) const = default;
  };

  std::int64_t epoch = 0;
  std::vector<Deal> deals = {};  // each of the rest of the previous one; empty at an epoch's beginning
  // What determines the epoch's order.
  std::uint64_t data_digest = 0;  // of the shards' sizes
  std::uint64_t seed = 0;
  bool shuffle = true;
  int mixed_shards = 1;

  bool operator==(const ShardSamplerState&) const = default;
};

class ShardSampler {
 public:
  // Throws if no epoch is possible, as DistributedSampler does. Shards may be empty.
  ShardSampler(std::vector<std::int64_t> shard_records, const ShardSampling& sampling);

  std::int64_t epoch() const { return epoch_; }
  // Begins that epoch. If already in it, keeps the position.
  void set_epoch(std::int64_t epoch);

  // Samples each rank still has in this epoch, the same number on all ranks; 0: the epoch is over.
  std::int64_t size() const;
  // This rank's remaining samples, in order; numbered across all shards, as in ShardedDataset.
  std::vector<std::int64_t> indices() const;
  // Every rank has trained on its next `samples_per_rank`. Throws if fewer are left.
  void advance(std::int64_t samples_per_rank);

  ShardSamplerState state() const;
  // Continues from a state, whatever the number of ranks that wrote it: the remaining samples are dealt anew. Throws if
  // it is from within an epoch in another order.
  void resume(const ShardSamplerState& state);

 private:
  using Range = std::pair<std::int64_t, std::int64_t>;  // [first, second) of the epoch's order

  std::int64_t per_rank() const;  // of the current deal
  std::vector<std::int64_t> order_of(const Range& range) const;

  std::vector<std::int64_t> shard_records_;
  ShardSampling sampling_;
  std::int64_t records_ = 0;
  std::int64_t epoch_ = 0;
  std::vector<ShardSamplerState::Deal> earlier_;  // the deals before the current one
  std::vector<Range> left_;                       // what the current deal distributes
  std::int64_t taken_ = 0;                        // of the current deal, per rank
};

}  // namespace ddprun
#pragma GCC visibility pop
