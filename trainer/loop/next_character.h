// Chooses the next character of a text by a model's scores. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "ddprun/sample_rng.h"

namespace ddprun::train {

struct Sampling {
  double temperature = 0.8;  // of the scores' softmax; 0: the highest score
  std::int64_t top_k = 0;    // only among the k highest; 0: among all
};

// An index into `scores`, of which there is at least one. Throws Error if one is not finite.
std::int64_t next_character(const std::vector<double>& scores, const Sampling& sampling, SampleRng& rng);

}  // namespace ddprun::train
