// Reads CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin for training, test_batch.bin for testing; or
// its Python version, as torchvision has it: the same names without .bin (cifar10_pickle.h).
//
// A binary file is a sequence of records of 3,073 bytes: a label, 0 .. 9, then the red, green and blue planes of an
// image of 32 by 32, row by row. Source: https://www.cs.toronto.edu/~kriz/cifar.html ("Binary version").
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/images.h"

namespace ddprun::train {

// Whether read_cifar10 finds a file there.
bool has_cifar10(const std::string& root);

// Appends the file's images. Throws Error, with the record and its offset, if `bytes` are malformed. `name` is for the
// messages.
void append_cifar10(Images& images, const std::vector<std::uint8_t>& bytes, const std::string& name);

// Reads `root`, or cifar-10-batches-bin or cifar-10-batches-py in it, as the archives unpack. Fewer than five training
// files are accepted, but without gaps. Throws Error, naming the file, if one is missing or malformed.
ImageSplits read_cifar10(const std::string& root);

}  // namespace ddprun::train
