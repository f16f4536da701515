// Reads images and labels from MNIST's four IDX files, or others of the same form (FashionMNIST, KMNIST, EMNIST's
// digits): train-images-idx3-ubyte, train-labels-idx1-ubyte and t10k-... (or test-...) of both. Each may have a dot
// before idx, be packed, with .gz at the end of its name, and be in a folder of its own name, as in archives of Kaggle.
#pragma once
#include <string>

#include "trainer/data/images.h"

namespace ddprun::train {

// From `root`, or from MNIST/raw or raw in it, where torchvision puts them. One channel, ten classes. Throws Error,
// naming the file, if one is missing, malformed, does not fit the others, or has a label above 9.
ImageSplits read_mnist(const std::string& root);

}  // namespace ddprun::train
