// Collates samples of tensors into batches of tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

// A sample's parts, for example [image, label], or a batch's, which have an additional first dimension.
using Tensors = std::vector<at::Tensor>;

// For DataLoader: stacks each part of the samples. Throws if the samples' parts differ in number, shape or type.
struct Collate {
  // Uses pinned memory, so that to(device, non_blocking) does not block the CPU. No effect without a GPU.
  bool pin_memory = false;

  Tensors operator()(const std::vector<Tensors>& samples) const;
};

}  // namespace ddprun
#pragma GCC visibility pop
