#include "trainer/dataset.h"

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>

#include "rendezvous/error.h"
#include "trainer/idx.h"

#ifndef DDPRUN_SHARE_DIR  // relative to the program, as installed
#define DDPRUN_SHARE_DIR "../share/ddprun"
#endif

namespace ddprun {
namespace {

namespace fs = std::filesystem;

Error unusable(const std::string& path, const std::string& why) {
  return Error("cannot use the data file " + path, why, "Name a folder with MNIST's four IDX files with --data.");
}

at::Tensor tensor_of(const IdxArray& array) {
  auto result = torch::empty(array.shape, torch::kUInt8);
  std::copy(array.values.begin(), array.values.end(), result.data_ptr<std::uint8_t>());
  return result;
}

Split load_split(const std::string& folder, const std::string& prefix) {
  const std::string images_path = folder + "/" + prefix + "-images-idx3-ubyte",
                    labels_path = folder + "/" + prefix + "-labels-idx1-ubyte";
  const IdxArray images = read_idx(images_path), labels = read_idx(labels_path);
  if (images.shape.size() != 3)
    throw unusable(images_path, "it has " + std::to_string(images.shape.size()) + " dimensions instead of 3");
  if (labels.shape.size() != 1)
    throw unusable(labels_path, "it has " + std::to_string(labels.shape.size()) + " dimensions instead of 1");
  if (labels.shape[0] != images.shape[0])
    throw unusable(labels_path, "it has " + std::to_string(labels.shape[0]) + " labels for " +
                                    std::to_string(images.shape[0]) + " images");
  return {tensor_of(images).unsqueeze(1).to(torch::kFloat).div_(255), tensor_of(labels).to(torch::kLong)};
}

Split to_device(const Split& split, at::Device device) { return {split.images.to(device), split.labels.to(device)}; }

}  // namespace

std::string find_data_folder(const std::string& dataset, const std::string& data) {
  if (!data.empty()) return data;
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none).parent_path();
  const std::vector<fs::path> places{program / DDPRUN_SHARE_DIR / "data" / dataset,
                                     fs::path(DDPRUN_SOURCE_DIR) / "data" / dataset, fs::path("data") / dataset};
  std::string looked;
  for (const auto& place : places) {
    if (fs::is_directory(place, none)) return place;
    looked += (looked.empty() ? "" : ", ") + place.lexically_normal().string();
  }
  throw Error("cannot find the data set " + dataset, "there is no " + looked,
              "Name the folder with its four IDX files with --data.");
}

Dataset load_dataset(const std::string& folder, at::Device device) {
  const Split train = load_split(folder, "train"), test = load_split(folder, "t10k");
  if (train.images.sizes().slice(1) != test.images.sizes().slice(1))
    throw unusable(folder + "/t10k-images-idx3-ubyte", "its images differ in size from those to train on");
  const auto classes = std::max(train.labels.max().item<std::int64_t>(), test.labels.max().item<std::int64_t>()) + 1;
  return {to_device(train, device), to_device(test, device), classes};
}

}  // namespace ddprun
