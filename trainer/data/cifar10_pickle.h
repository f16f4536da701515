// Reads a file of CIFAR-10's Python version, as torchvision fetches it: data_batch_1 and the like.
//
// It is a pickle of a dict with "data", a numpy array of bytes [n, 3072], and "labels", a list of n numbers. The reader
// knows what such a file has, refuses everything else, and calls nothing. Source:
// https://www.cs.toronto.edu/~kriz/cifar.html ("Python version").
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/images.h"

namespace ddprun::train {

// Appends the file's images. Throws Error if `bytes` are malformed. `name` is for the messages.
void append_cifar10_pickle(Images& images, const std::vector<std::uint8_t>& bytes, const std::string& name);

}  // namespace ddprun::train
