// Which records of a sharded data set a rank sees, in which order, so that each rank reads few shards.
//
// The shards are shuffled, and the records within them; the ranks get equal, contiguous parts of the result. So a rank
// has whole shards, and shares only the first and the last of them with its neighbours: every rank has the same number
// of samples, and of batches, whatever the shards' sizes. The samples are not as well mixed as DistributedSampler's;
// mixed_shards mends that.
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
  bool drop_last = false;  // drop what some ranks would have one more of, instead of repeating the head for the others
  // So many shards' records are shuffled together, and read side by side; ShardedDataset keeps 64 open.
  int mixed_shards = 1;
};

// Where a job stands in its data: equal on all ranks, so one of them can save it for all.
struct ShardSamplerState {
  // The epoch was dealt out to so many ranks, and each has had so many of its samples.
  struct Deal {
    int world_size = 1;
    std::int64_t taken = 0;
    bool drop_last = false;
    bool operator==(const Deal&) const = default;
  };

  std::int64_t epoch = 0;
  std::vector<Deal> deals = {};  // each of what the one before it left; empty at an epoch's beginning
  // What the epoch's order follows from.
  std::uint64_t data_digest = 0;  // of the shards' sizes
  std::uint64_t seed = 0;
  bool shuffle = true;
  int mixed_shards = 1;

  bool operator==(const ShardSamplerState&) const = default;
};

class ShardSampler {
 public:
  // Throws where no epoch is possible, as DistributedSampler does. Shards without records do no harm.
  ShardSampler(std::vector<std::int64_t> shard_records, const ShardSampling& sampling);

  std::int64_t epoch() const { return epoch_; }
  // Begins that epoch. In it already: goes on where it is.
  void set_epoch(std::int64_t epoch);

  // Samples each rank still has in this epoch, the same number everywhere; 0: it is over.
  std::int64_t size() const;
  // This rank's, in their order; numbered through all shards, as ShardedDataset does.
  std::vector<std::int64_t> indices() const;
  // Every rank has trained on its next `samples_per_rank`. Throws where it has not so many.
  void advance(std::int64_t samples_per_rank);

  ShardSamplerState state() const;
  // Goes on from a state, whatever the number of ranks that wrote it: what they have not seen is dealt out anew.
  // Throws where it is from the midst of an epoch in another order.
  void resume(const ShardSamplerState& state);

 private:
  using Range = std::pair<std::int64_t, std::int64_t>;  // [first, second) of the epoch's order

  std::int64_t per_rank() const;  // of the current deal
  std::vector<std::int64_t> order_of(const Range& range) const;

  std::vector<std::int64_t> shard_records_;
  ShardSampling sampling_;
  std::int64_t records_ = 0;
  std::int64_t epoch_ = 0;
  std::vector<ShardSamplerState::Deal> earlier_;  // what `left_` is the rest of
  std::vector<Range> left_;                       // what the current deal deals out
  std::int64_t taken_ = 0;                        // of the current deal, per rank
};

}  // namespace ddprun
#pragma GCC visibility pop
