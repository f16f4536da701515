#include "ddprun/sampler.h"

#include <numeric>
#include <random>
#include <utility>

#include "rendezvous/error.h"

namespace ddprun {
namespace {

std::vector<std::int64_t> every_nth(const std::vector<std::int64_t>& indices, int first, int step) {
  std::vector<std::int64_t> result;
  result.reserve(indices.size() / static_cast<std::size_t>(step) + 1);
  for (auto i = static_cast<std::size_t>(first); i < indices.size(); i += static_cast<std::size_t>(step))
    result.push_back(indices[i]);
  return result;
}

std::int64_t samples_per_rank(const Sampling& s) {
  return s.drop_last ? s.dataset_size / s.world_size : (s.dataset_size + s.world_size - 1) / s.world_size;
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

std::vector<std::int64_t> epoch_indices(const Sampling& s, std::int64_t epoch) {
  check(s.dataset_size > 0 && s.dataset_size < kSamplesMax, "a data set of 1 to 2^32 / 20 samples");
  check(s.rank >= 0 && s.rank < s.world_size, "0 <= rank < world_size");
  std::vector<std::int64_t> indices(static_cast<std::size_t>(s.dataset_size));
  if (s.shuffle) {
    indices = random_permutation(s.dataset_size, s.seed + static_cast<std::uint64_t>(epoch));
  } else {
    std::iota(indices.begin(), indices.end(), 0);
  }
  const auto total = static_cast<std::size_t>(samples_per_rank(s) * s.world_size);
  indices.reserve(total);
  for (std::size_t i = 0; indices.size() < total; ++i)
    indices.push_back(indices[i]);  // the head again, and again where need be
  indices.resize(total);
  return every_nth(indices, s.rank, s.world_size);
}

std::vector<std::int64_t> evaluation_indices(std::int64_t dataset_size, int rank, int world_size) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = rank; i < dataset_size; i += world_size) result.push_back(i);
  return result;
}

}  // namespace ddprun
