// Images and labels in MNIST's four IDX files, or any others made like these: train-images-idx3-ubyte,
// train-labels-idx1-ubyte and t10k-... of both.
#pragma once
#include <string>

#include "trainer/data/images.h"

namespace ddprun::train {

// One channel, ten classes. Error, naming the file, where one is missing, malformed or does not fit the others, or has
// a label above 9.
ImageSplits read_mnist(const std::string& folder);

}  // namespace ddprun::train
