#include "ddprun/shard_sampler.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "ddprun/sample_rng.h"
#include "ddprun/sampler.h"
#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

using Range = std::pair<std::int64_t, std::int64_t>;
using Deal = ShardSamplerState::Deal;

constexpr std::int64_t kShardOrder = -1;  // its random stream; groups of shards have streams from 0 on

std::int64_t length(const std::vector<Range>& ranges) {
  std::int64_t sum = 0;
  for (const auto& [first, second] : ranges) sum += second - first;
  return sum;
}

std::int64_t samples_per_rank(const std::vector<Range>& ranges, int world_size, bool drop_last) {
  return drop_last ? length(ranges) / world_size : (length(ranges) + world_size - 1) / world_size;
}

// The elements begin .. end - 1 of the concatenated ranges, which repeat after their end.
std::vector<Range> section(const std::vector<Range>& ranges, std::int64_t begin, std::int64_t end) {
  std::vector<Range> result;
  const std::int64_t total = length(ranges);
  while (begin < end) {
    std::int64_t skip = begin % total;
    for (const auto& [first, second] : ranges) {
      const std::int64_t take = std::min(second - first - skip, end - begin);
      if (take > 0) {
        result.emplace_back(first + skip, first + skip + take);
        begin += take;
      }
      skip = std::max<std::int64_t>(0, skip - (second - first));
    }
  }
  return result;
}

// A rank's part: contiguous, and one longer for the first ranks if they cannot be equal.
Range part_of(const std::vector<Range>& ranges, int world_size, int rank) {
  const std::int64_t each = length(ranges) / world_size, longer = length(ranges) % world_size;
  const auto begin = [&](int r) { return r * each + std::min<std::int64_t>(r, longer); };
  return {begin(rank), begin(rank + 1)};
}

// What no rank has seen after a deal, in the order of the ranks.
std::vector<Range> rest_after(const std::vector<Range>& ranges, const Deal& deal) {
  std::vector<Range> result;
  for (int rank = 0; rank < deal.world_size; ++rank) {
    const auto [begin, end] = part_of(ranges, deal.world_size, rank);
    for (const auto& range : section(ranges, begin + deal.taken, end)) result.push_back(range);
  }
  return result;
}

std::uint64_t digest_of(const std::vector<std::int64_t>& numbers) {
  std::uint64_t digest = 0;
  for (const auto number : numbers) digest = mixed_seed(digest, number, 0);
  return digest;
}

Error shard_sampler_error(const std::string& why) { return Error("cannot divide the shards among the ranks", why); }

Error shard_resume_error(const std::string& why) {
  return Error("cannot resume in the middle of the epoch", why,
               "Resume with the shards, seed and shuffling it was saved with, or begin at an epoch's start.");
}

}  // namespace

ShardSampler::ShardSampler(std::vector<std::int64_t> shard_records, const ShardSampling& s)
    : shard_records_(std::move(shard_records)), sampling_(s) {
  std::int64_t most = 0;
  for (const auto records : shard_records_) {
    if (records < 0) throw shard_sampler_error("one of them has " + std::to_string(records) + " records");
    records_ += records;
    most = std::max(most, records);
  }
  if (records_ == 0) throw shard_sampler_error("they have no records");
  if (s.rank < 0 || s.rank >= s.world_size)
    throw shard_sampler_error("there is no rank " + std::to_string(s.rank) + " among " + std::to_string(s.world_size));
  if (s.mixed_shards < 1 || most * s.mixed_shards >= kSamplesMax)
    throw shard_sampler_error(std::to_string(s.mixed_shards) + " shards of " + std::to_string(most) +
                              " records cannot be mixed");
  if (s.drop_last && records_ < s.world_size)
    throw Error("cannot divide the shards among the ranks",
                "they have " + std::to_string(records_) + " records for " + std::to_string(s.world_size) +
                    " ranks, and drop_last drops them all",
                "Use fewer ranks, or let samples be repeated (drop_last = false).");
  left_ = {{0, records_}};
}

void ShardSampler::set_epoch(std::int64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  earlier_.clear();
  left_ = {{0, records_}};
  taken_ = 0;
}

std::int64_t ShardSampler::per_rank() const {
  return samples_per_rank(left_, sampling_.world_size, sampling_.drop_last);
}

std::int64_t ShardSampler::size() const { return per_rank() - taken_; }

std::vector<std::int64_t> ShardSampler::indices() const {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(size()));
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    for (const auto& range : section(left_, begin, end))
      for (const auto index : order_of(range)) result.push_back(index);
  };
  const auto [begin, end] = part_of(left_, sampling_.world_size, sampling_.rank);
  add(begin + taken_, std::min(end, begin + per_rank()));
  if (static_cast<std::int64_t>(result.size()) < size()) {  // ranks with shorter parts pad them from the start
    const std::int64_t longer = length(left_) % sampling_.world_size;
    add(sampling_.rank - longer, sampling_.rank - longer + 1);
  }
  return result;
}

// Computes the order only of the groups of shards that the range touches.
std::vector<std::int64_t> ShardSampler::order_of(const Range& range) const {
  const auto shards = static_cast<std::int64_t>(shard_records_.size());
  std::vector<std::int64_t> order(shard_records_.size()), starts(shard_records_.size());
  std::iota(order.begin(), order.end(), 0);
  if (sampling_.shuffle) order = random_permutation(shards, mixed_seed(sampling_.seed, epoch_, kShardOrder));
  std::exclusive_scan(shard_records_.begin(), shard_records_.end(), starts.begin(), std::int64_t{0});
  std::vector<std::int64_t> result;
  std::int64_t at = 0;
  for (std::int64_t first = 0; first < shards && at < range.second; first += sampling_.mixed_shards) {
    const std::int64_t last = std::min<std::int64_t>(first + sampling_.mixed_shards, shards);
    std::int64_t size = 0;
    for (auto i = first; i < last; ++i) size += shard_records_[order[i]];
    const std::int64_t from = std::max(range.first - at, std::int64_t{0}), to = std::min(range.second - at, size);
    if (from < to) {
      std::vector<std::int64_t> group;
      group.reserve(static_cast<std::size_t>(size));
      for (auto i = first; i < last; ++i)
        for (std::int64_t record = 0; record < shard_records_[order[i]]; ++record)
          group.push_back(starts[order[i]] + record);
      std::vector<std::int64_t> drawn(group.size());
      std::iota(drawn.begin(), drawn.end(), 0);
      if (sampling_.shuffle) drawn = random_permutation(size, mixed_seed(sampling_.seed, epoch_, first));
      for (auto i = from; i < to; ++i) result.push_back(group[drawn[i]]);
    }
    at += size;
  }
  return result;
}

void ShardSampler::advance(std::int64_t samples_per_rank) {
  if (samples_per_rank < 0 || samples_per_rank > size())
    throw Error("cannot advance the sampler by " + std::to_string(samples_per_rank) + " samples",
                "each rank has " + std::to_string(size()) + " left in this epoch");
  taken_ += samples_per_rank;
}

ShardSamplerState ShardSampler::state() const {
  ShardSamplerState state{.epoch = epoch_,
                          .deals = earlier_,
                          .data_digest = digest_of(shard_records_),
                          .seed = sampling_.seed,
                          .shuffle = sampling_.shuffle,
                          .mixed_shards = sampling_.mixed_shards};
  if (taken_ > 0) state.deals.push_back({sampling_.world_size, taken_, sampling_.drop_last});
  return state;
}

void ShardSampler::resume(const ShardSamplerState& state) {
  if (!state.deals.empty()) {
    if (state.data_digest != digest_of(shard_records_)) throw shard_resume_error("it was saved with other shards");
    if (state.shuffle != sampling_.shuffle)
      throw shard_resume_error(state.shuffle ? "it was saved with shuffling, but this run does not shuffle"
                                             : "it was saved without shuffling");
    if (state.shuffle && state.seed != sampling_.seed)
      throw shard_resume_error("it was saved with seed " + std::to_string(state.seed) + ", but here it is " +
                               std::to_string(sampling_.seed));
    if (state.shuffle && state.mixed_shards != sampling_.mixed_shards)
      throw shard_resume_error("it was saved with " + std::to_string(state.mixed_shards) +
                               " shards mixed, but here it is " + std::to_string(sampling_.mixed_shards));
  }
  std::vector<Deal> earlier = state.deals;
  std::int64_t taken = 0;
  // As many ranks as before: the same deal continues, so the order is that of an uninterrupted run.
  if (!earlier.empty() && earlier.back().world_size == sampling_.world_size &&
      earlier.back().drop_last == sampling_.drop_last) {
    taken = earlier.back().taken;
    earlier.pop_back();
  }
  std::vector<Range> left{{0, records_}};
  for (const auto& deal : earlier) {
    if (deal.world_size < 1 || deal.taken < 0 || deal.taken > samples_per_rank(left, deal.world_size, deal.drop_last))
      throw shard_resume_error("its numbers are impossible");
    left = rest_after(left, deal);
  }
  if (taken < 0 || taken > samples_per_rank(left, sampling_.world_size, sampling_.drop_last))
    throw shard_resume_error("its numbers are impossible");
  epoch_ = state.epoch;
  earlier_ = std::move(earlier);
  left_ = std::move(left);
  taken_ = taken;
}

}  // namespace ddprun
