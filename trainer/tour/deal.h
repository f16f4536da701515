// Epochs as a sampler deals them out to the ranks: their text and their picture. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::train {

using Shares = std::vector<std::vector<std::int64_t>>;  // by rank: its samples in their order

struct Deal {
  std::string title;          // "shuffled, epoch 0"
  std::string meaning;        // the rest of a sentence
  std::int64_t promised = 0;  // so many different samples
  Shares shares = {};
};

inline constexpr std::int64_t kTourSamples = 11;  // a prime number: it never divides evenly

// The deals of the tour, each with the one share that `rank` computes for itself.
std::vector<Deal> deals_of_rank(int rank, int world_size);

// The deals of one rank with the shares of all: by_rank[rank][deal].
std::vector<Deal> gathered(std::vector<Deal> deals, const std::vector<Shares>& by_rank);

// For each rank's samples: whether the same one was dealt before, position by position and rank by rank.
std::vector<std::vector<bool>> dealt_before(const Shares& shares);

// A line per rank, a star at each sample that was dealt before, and what it adds up to.
std::string text_of(const Deal& deal);
// What is not as it should be, one sentence each: a sample that nobody has, shares that are not equally long.
std::vector<std::string> wrongs_of(const std::vector<Deal>& deals);

// An SVG: a grid of ranks and positions for each deal, a colour for each sample, a frame around what was dealt before.
std::string picture_of(const std::vector<Deal>& deals);

}  // namespace ddprun::train
