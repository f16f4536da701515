// Runs a tour: a small run that shows what the ranks of a group do together, and checks that they do.
//
// Every rank of the job calls it, under a launcher or alone with a world size of 1. It makes the default process group,
// over NCCL if `device` is a GPU, else over gloo, and destroys it at the end. Rank 0 prints what all ranks did, by
// rank: equal worlds print equal texts, except for times.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdio>
#include <string>

#include "trainer/tour/deal.h"
#include "trainer/tour/tours.h"

namespace ddprun::train {

struct TourOptions {
  std::string svg = {};  // a file for the picture, replaced whole or not at all; empty: none
  std::int64_t samples = kTourSamples, batch_size = kTourBatch;  // of the sampler's tour
  std::FILE* out = stdout;
};

// Returns the exit code, the same on all ranks: 0, or 1 if a result was wrong. Throws UsageError for an unknown tour,
// or a picture of a tour that draws none; Error if the system refuses something.
int run_tour(const std::string& name, const TourOptions& options, at::Device device);

}  // namespace ddprun::train
