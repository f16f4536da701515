// Images and labels as tensors, from a folder with MNIST's four IDX files.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace ddprun {

struct Split {
  at::Tensor images;  // [n, 1, height, width] float, 0 .. 1
  at::Tensor labels;  // [n] int64, 0 .. classes - 1
  std::int64_t size() const { return labels.size(0); }
};

struct Dataset {
  Split train, test;
  std::int64_t classes = 0;
};

// The folder named by --data; else data/<name> beside the program's installation, its source tree or the current
// folder. Error when there is none.
std::string find_data_folder(const std::string& dataset, const std::string& data);

// Error, naming the file, where one is missing, malformed, or does not fit the others.
Dataset load_dataset(const std::string& folder, at::Device device);

}  // namespace ddprun
