// Runs a tour: a small run that shows what the ranks of a group do together, and checks that they do.
//
// Every rank of the job calls it, under a launcher or alone as a world of one. It makes the default process group, over
// NCCL where `device` is a GPU, else over gloo, and destroys it at the end. Rank 0 prints what all ranks did, in their
// order: equal worlds print equal texts, but for times.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdio>
#include <string>

#include "trainer/tour/tours.h"

namespace ddprun::train {

struct TourOptions {
  std::string svg = {};  // a file for the picture, replaced whole or not at all; empty: none
  std::FILE* out = stdout;
};

// The exit code, the same on all ranks: 0, or 1 where a result was not what it has to be. UsageError for a name that is
// no tour's, and for a picture of a tour that draws none; Error for what the world refuses.
int run_tour(const std::string& name, const TourOptions& options, at::Device device);

}  // namespace ddprun::train
