// Which data `train` uses: only the values of its flags.
#pragma once
#include <cstdint>
#include <string>

namespace ddprun::train {

// The names that load_dataset knows.
inline constexpr const char* kDatasetNames[] = {"digits", "mnist", "cifar10", "text", "synthetic", "toy", "shards"};

struct DataSpec {
  std::string name = "digits";
  // The data set's folder, which shards need; for text also the file itself. Empty: find_data (data_file.h) finds it by
  // name. Synthetic and toy have no files.
  std::string folder = {};
  // Training images: a random crop with zero padding, and except for digits a random flip (augment.h).
  bool augment = false;
  bool normalise = false;     // images: by the data set's usual mean and deviation per channel
  std::int64_t context = 64;  // characters of one sample of text
  std::int64_t stride = 0;    // from one sample of text to the next; 0: context, so that they do not overlap
  std::uint64_t seed = 0;     // of crops, flips, synthetic and toy
  // Synthetic images for training; a quarter as many (at least one) for testing.
  std::int64_t samples = 2048;
  std::int64_t channels = 3, height = 32, width = 32, classes = 10;
  // What the forward pass takes images as: a GPU that makes them of bytes makes them so at once.
  bool channels_last = false;
  std::string precision = "float";  // or bf16, fp16: of autocast
};

}  // namespace ddprun::train
