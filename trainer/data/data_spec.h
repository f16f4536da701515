// Which data `train` is to use: the values of its flags, and no more.
#pragma once
#include <cstdint>
#include <string>

namespace ddprun::train {

// The names that load_dataset knows.
inline constexpr const char* kDatasetNames[] = {"digits", "mnist", "cifar10", "text", "synthetic", "toy"};

struct DataSpec {
  std::string name = "digits";
  // With the data set's files; of text also the file itself. Empty: found by the name, as find_data (data_file.h)
  // says. Synthetic and toy have no files.
  std::string folder = {};
  // Images to train on: a random crop out of a frame of zeros, and but for digits a random flip (augment.h).
  bool augment = false;
  bool normalise = false;     // images: by the data set's usual mean and deviation, channel by channel
  std::int64_t context = 64;  // characters of one sample of text
  std::int64_t stride = 0;    // from one sample of text to the next; 0: context, so that they do not overlap
  std::uint64_t seed = 0;     // of crops and flips, and of what synthetic and toy are made from
  // Synthetic images: so many to train on, and a quarter as many (at least one) to test on.
  std::int64_t samples = 2048;
  std::int64_t channels = 3, height = 32, width = 32, classes = 10;
};

}  // namespace ddprun::train
