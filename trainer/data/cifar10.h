// Reads CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin to train on, test_batch.bin to test on.
//
// A file is nothing but records of 3,073 bytes: a label, 0 .. 9, and then the red, the green and the blue plane of an
// image of 32 by 32, row by row. Source: https://www.cs.toronto.edu/~kriz/cifar.html ("Binary version").
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/images.h"

namespace ddprun::train {

// Appends the file's images. Error, with the record and its offset, where `bytes` are no such records. `name` is for
// the messages.
void append_cifar10(Images& images, const std::vector<std::uint8_t>& bytes, const std::string& name);

// From `folder`, or from cifar-10-batches-bin in it, as the archive unpacks. Fewer than five files to train on will do,
// but none may be missing between them. Error, naming the file, where one is missing or malformed.
ImageSplits read_cifar10(const std::string& folder);

}  // namespace ddprun::train
