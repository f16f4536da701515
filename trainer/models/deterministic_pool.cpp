#include "trainer/models/deterministic_pool.h"

#include <torch/torch.h>

#include <vector>

namespace ddprun::train {
namespace {

// Window i of `dimension` reaches from floor(i * size / side) to ceil((i + 1) * size / side).
// Source: aten/src/ATen/native/AdaptivePooling.h of PyTorch.
at::Tensor window_means(const at::Tensor& images, std::int64_t dimension, std::int64_t side) {
  const std::int64_t size = images.size(dimension);
  std::vector<at::Tensor> means;
  for (std::int64_t i = 0; i < side; ++i) {
    const std::int64_t begin = i * size / side, end = ((i + 1) * size + side - 1) / side;
    means.push_back(images.slice(dimension, begin, end).mean(dimension));
  }
  return torch::stack(means, dimension);
}

}  // namespace

at::Tensor deterministic_avg_pool2d(const at::Tensor& images, std::int64_t side) {
  return window_means(window_means(images, 2, side), 3, side);
}

at::Tensor avg_pool_to(const at::Tensor& images, std::int64_t side) {
  // One mean over all pixels is deterministic in LibTorch.
  const bool replaced = side > 1 && images.is_cuda() && at::globalContext().deterministicAlgorithms();
  return replaced ? deterministic_avg_pool2d(images, side) : torch::adaptive_avg_pool2d(images, {side, side});
}

}  // namespace ddprun::train
