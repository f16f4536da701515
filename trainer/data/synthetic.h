// Generates data from a seed, to try a model or a cluster without files.
//
// Equal seeds give equal data on every machine. Train and test parts come from different streams of the same numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "trainer/data/data_spec.h"
#include "trainer/data/images.h"

namespace ddprun::train {

// Each class is a mosaic of 4 by 4 grey levels per channel; an image is its class's mosaic plus noise on every pixel.
// The classes alternate. Throws Error if a size is below 1 or
// the training images have more than 4 GiB.
ImageSplits make_synthetic(const DataSpec& spec);

// PyTorch's DDP tutorial draws 2,048 samples of 20 uniform features and one target that is noise; here the target is a
// fixed linear function of the features plus a little noise, so that there is something to learn.
// Source: pytorch/examples, distributed/ddp-tutorial-series/datautils.py.
inline constexpr std::int64_t kToyFeatures = 20, kToyTrain = 2048, kToyTest = 512;
inline constexpr double kToyNoise = 0.01;  // the noise's standard deviation; that of the targets is 1.5

struct ToySamples {
  std::vector<float> features;  // [size, kToyFeatures], 0 .. 1
  std::vector<float> targets;   // [size]
};
struct ToySplits {
  ToySamples train, test;
};
ToySplits make_toy(std::uint64_t seed);

}  // namespace ddprun::train
