// Samples of tensors as batches of tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

// A sample's parts, as [image, label]; and a batch's, each with one dimension more, the first.
using Tensors = std::vector<at::Tensor>;

// For DataLoader: each part of the samples stacked. Throws where the samples' parts differ in number, shape or type.
struct Collate {
  // Into memory from which a GPU copies while the CPU goes on (to(device, non_blocking)). Without a GPU nothing
  // changes.
  bool pin_memory = false;

  Tensors operator()(const std::vector<Tensors>& samples) const;
};

}  // namespace ddprun
#pragma GCC visibility pop
