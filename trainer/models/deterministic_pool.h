// adaptive_avg_pool2d of operations that are deterministic on GPUs, too: its own backward adds in any order there.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddprun::train {

// images [n, channels, height, width] -> [n, channels, side, side], the means that torch::adaptive_avg_pool2d gives;
// other roundings. Each window is a rectangle, so rows are averaged first.
at::Tensor deterministic_avg_pool2d(const at::Tensor& images, std::int64_t side);

// On a GPU under use_deterministic_algorithms() the former, else LibTorch's own.
at::Tensor avg_pool_to(const at::Tensor& images, std::int64_t side);

}  // namespace ddprun::train
