// What the steps of optimizers.h have in common.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun {

using TensorVector = std::vector<at::Tensor>;

// Of a gradient scaler; undefined without one.
struct Scaling {
  at::Tensor grad_scale, found_inf;

  Scaling on(at::Device device) const;
};

// Undefined stays undefined.
at::Tensor on_device(const at::Tensor& number, at::Device device);

// The parameters of one device and type, their gradients, and for each list of their states one tensor per parameter.
// Kernels take one of these at a time.
struct StepLists {
  TensorVector parameters, gradients;
  std::vector<TensorVector> states;
  std::vector<std::size_t> places = {};  // in the lists that were divided
};

std::vector<StepLists> by_device_and_type(const StepLists& all);

bool any_sparse(const TensorVector& gradients);

// Throws Error if the fused kernels cannot take a parameter or its gradient.
void require_fusable(const StepLists& lists);

// A fused kernel takes a parameter's tensors as memory, number by number: gives them the parameter's layout, as copies
// where they have another one.
void lay_out_alike(StepLists& lists);

// After a fused step: what it wrote to copies of `given`, the gradients.
void copy_back(const TensorVector& gradients, const TensorVector& given);

}  // namespace ddprun
