#include "trainer/data/mnist.h"

#include "rendezvous/base/error.h"
#include "trainer/data/data_file.h"
#include "trainer/data/idx.h"

namespace ddprun::train {
namespace {

constexpr std::int64_t kDigits = 10;

Error unusable(const std::string& path, const std::string& why) {
  return Error("cannot use the data file " + path, why, "Name a folder with MNIST's four IDX files with --data.");
}

void check_dimensions(const IdxArray& array, std::size_t dimensions, const std::string& path) {
  if (array.shape.size() != dimensions)
    throw unusable(
        path, "it has " + std::to_string(array.shape.size()) + " dimensions instead of " + std::to_string(dimensions));
}

void check_labels(const IdxArray& labels, const std::string& path) {
  for (std::size_t i = 0; i < labels.values.size(); ++i)
    if (labels.values[i] >= kDigits)
      throw unusable(path, "label " + std::to_string(i) + " is " + std::to_string(labels.values[i]) +
                               " and has to be from 0 to " + std::to_string(kDigits - 1));
}

Images read_split(const std::string& folder, const std::string& prefix) {
  const std::string images_path = folder + "/" + prefix + "-images-idx3-ubyte",
                    labels_path = folder + "/" + prefix + "-labels-idx1-ubyte";
  IdxArray images = read_idx(images_path);
  const IdxArray labels = read_idx(labels_path);
  check_dimensions(images, 3, images_path);
  check_dimensions(labels, 1, labels_path);
  if (labels.shape[0] != images.shape[0])
    throw unusable(labels_path, "it has " + std::to_string(labels.shape[0]) + " labels for " +
                                    std::to_string(images.shape[0]) + " images");
  check_labels(labels, labels_path);
  return {.channels = 1,
          .height = images.shape[1],
          .width = images.shape[2],
          .classes = kDigits,
          .pixels = std::move(images.values),
          .labels = {labels.values.begin(), labels.values.end()}};
}

}  // namespace

ImageSplits read_mnist(const std::string& root) {
  const std::string folder =
      folder_with({"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"}, root, {"", "MNIST/raw", "raw"});
  ImageSplits splits{.train = read_split(folder, "train"), .test = read_split(folder, "t10k")};
  if (splits.train.height != splits.test.height || splits.train.width != splits.test.width)
    throw unusable(folder + "/t10k-images-idx3-ubyte", "its images differ in size from those to train on");
  return splits;
}

}  // namespace ddprun::train
