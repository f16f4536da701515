// Reads CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin for training, test_batch.bin for testing.
//
// A file is a sequence of records of 3,073 bytes: a label, 0 .. 9, then the red, green and blue planes of an image of
// 32 by 32, row by row. Source: https://www.cs.toronto.edu/~kriz/cifar.html ("Binary version").
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/images.h"

namespace ddprun::train {

// Appends the file's images. Throws Error, with the record and its offset, if `bytes` are malformed. `name` is for the
// messages.
void append_cifar10(Images& images, const std::vector<std::uint8_t>& bytes, const std::string& name);

// Reads `folder`, or cifar-10-batches-bin in it, as the archive unpacks. Fewer than five training files are accepted,
// but without gaps. Throws Error, naming the file, if one is missing or malformed.
ImageSplits read_cifar10(const std::string& folder);

}  // namespace ddprun::train
