// Reads images and labels from MNIST's four IDX files, or others of the same form: train-images-idx3-ubyte,
// train-labels-idx1-ubyte and t10k-... of both.
#pragma once
#include <string>

#include "trainer/data/images.h"

namespace ddprun::train {

// One channel, ten classes. Throws Error, naming the file, if one is missing, malformed, does not fit the others, or
// has a label above 9.
ImageSplits read_mnist(const std::string& folder);

}  // namespace ddprun::train
