// How a sampler deals epochs to the ranks, as text and as a picture. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::train {

using Shares = std::vector<std::vector<std::int64_t>>;  // by rank: its samples in their order

struct Deal {
  std::string title;          // "shuffled, epoch 0"
  std::string meaning;        // the rest of a sentence
  std::int64_t samples = 0;   // of the data set
  std::int64_t expected = 0;  // number of different samples
  Shares shares = {};
};

inline constexpr std::int64_t kTourSamples = 11;  // a prime number: it never divides evenly
inline constexpr std::int64_t kTourSamplesMax = 100, kTourBatch = 2;

// The deals of the tour, each with only the share of `rank`.
std::vector<Deal> deals_of_rank(int rank, int world_size, std::int64_t samples = kTourSamples);

// One rank's deals, completed with all ranks' shares: by_rank[rank][deal].
std::vector<Deal> gathered(std::vector<Deal> deals, const std::vector<Shares>& by_rank);

// For each rank's samples: whether the same one was dealt before, position by position and rank by rank.
std::vector<std::vector<bool>> dealt_before(const Shares& shares);

// A line per rank, with a star at each sample that was dealt before, and a summary.
std::string text_of(const Deal& deal);
// A line per rank with its batches, a column per step.
std::string batches_text(const Deal& deal, std::int64_t batch_size);
// Errors as sentences: a sample that no rank has, shares of different lengths.
std::vector<std::string> errors_of(const std::vector<Deal>& deals);

// An SVG: a grid of ranks and positions per deal, a colour per sample, a frame around samples that were dealt before.
std::string picture_of(const std::vector<Deal>& deals);

}  // namespace ddprun::train
