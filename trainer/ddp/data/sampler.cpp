#include "ddprun/sampler.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

std::vector<std::int64_t> epoch_order(const Sampling& s, std::int64_t epoch) {
  if (s.shuffle) return random_permutation(s.dataset_size, s.seed + static_cast<std::uint64_t>(epoch));
  std::vector<std::int64_t> order(static_cast<std::size_t>(s.dataset_size));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Samples per rank left in an epoch after its first `consumed` samples.
std::int64_t samples_per_rank(const Sampling& s, std::int64_t consumed) {
  const std::int64_t left = std::max<std::int64_t>(0, s.dataset_size - consumed);
  return s.drop_last ? left / s.world_size : (left + s.world_size - 1) / s.world_size;
}

std::vector<std::int64_t> rank_indices(const Sampling& s, std::int64_t epoch, std::int64_t consumed) {
  check(s.dataset_size > 0 && s.dataset_size < kSamplesMax, "a data set of 1 to 2^32 / 20 samples");
  check(s.rank >= 0 && s.rank < s.world_size, "0 <= rank < world_size");
  const auto order = epoch_order(s, epoch);
  std::vector<std::int64_t> result(static_cast<std::size_t>(samples_per_rank(s, consumed)));
  std::int64_t at = consumed + s.rank;
  for (auto& index : result) {
    index = order[static_cast<std::size_t>(at % s.dataset_size)];  // past the end: repeats from the start
    at += s.world_size;
  }
  return result;
}

Error sampler_error(const std::string& why) { return Error("cannot divide the data set among the ranks", why); }

Error resume_error(const std::string& why) {
  return Error("cannot resume in the middle of the epoch", why,
               "Resume with the data, seed and shuffling it was saved with, or begin at an epoch's start.");
}

}  // namespace

std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(n));
  std::iota(result.begin(), result.end(), 0);
  std::mt19937 generator(static_cast<std::uint32_t>(seed));  // PyTorch keeps the low 32 bits, too
  for (std::int64_t i = 0; i < n - 1; ++i)
    std::swap(result[i], result[i + static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(n - i))]);
  return result;
}

std::vector<std::int64_t> epoch_indices(const Sampling& s, std::int64_t epoch) { return rank_indices(s, epoch, 0); }

std::vector<std::int64_t> evaluation_indices(std::int64_t dataset_size, int rank, int world_size) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = rank; i < dataset_size; i += world_size) result.push_back(i);
  return result;
}

DistributedSampler::DistributedSampler(const Sampling& s) : sampling_(s) {
  const std::string samples = std::to_string(s.dataset_size) + (s.dataset_size == 1 ? " sample" : " samples");
  if (s.dataset_size < 1 || s.dataset_size >= kSamplesMax)
    throw sampler_error("it has " + samples + ", but 1 to " + std::to_string(kSamplesMax - 1) + " are possible");
  if (s.rank < 0 || s.rank >= s.world_size)
    throw sampler_error("there is no rank " + std::to_string(s.rank) + " among " + std::to_string(s.world_size));
  if (s.drop_last && s.dataset_size < s.world_size)
    throw Error("cannot divide the data set among the ranks",
                "it has " + samples + " for " + std::to_string(s.world_size) + " ranks, and drop_last drops them all",
                "Use fewer ranks, or let samples be repeated (drop_last = false).");
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  consumed_ = 0;
}

std::int64_t DistributedSampler::size() const { return samples_per_rank(sampling_, consumed_); }

std::vector<std::int64_t> DistributedSampler::indices() const { return rank_indices(sampling_, epoch_, consumed_); }

void DistributedSampler::advance(std::int64_t samples_per_rank) {
  if (samples_per_rank < 0 || samples_per_rank > size())
    throw Error("cannot advance the sampler by " + std::to_string(samples_per_rank) + " samples",
                "each rank has " + std::to_string(size()) + " left in this epoch");
  consumed_ += samples_per_rank * sampling_.world_size;
}

SamplerState DistributedSampler::state() const {
  return {.epoch = epoch_,
          .consumed = consumed_,
          .dataset_size = sampling_.dataset_size,
          .seed = sampling_.seed,
          .shuffle = sampling_.shuffle};
}

void DistributedSampler::resume(const SamplerState& state) {
  if (state.consumed < 0)
    throw resume_error("it says that " + std::to_string(state.consumed) + " samples were consumed");
  if (state.consumed > 0) {
    if (state.dataset_size != sampling_.dataset_size)
      throw resume_error("it was saved with " + std::to_string(state.dataset_size) +
                         " samples, but this data set has " + std::to_string(sampling_.dataset_size));
    if (state.shuffle != sampling_.shuffle)
      throw resume_error(state.shuffle ? "it was saved with shuffling, but this run does not shuffle"
                                       : "it was saved without shuffling");
    if (state.shuffle && state.seed != sampling_.seed)
      throw resume_error("it was saved with seed " + std::to_string(state.seed) + ", but here it is " +
                         std::to_string(sampling_.seed));
  }
  epoch_ = state.epoch;
  consumed_ = state.consumed;
}

}  // namespace ddprun
