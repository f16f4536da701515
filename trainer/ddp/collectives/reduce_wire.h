// Converts a tensor for a reduction to a type that the backend supports, without changing the result.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "ddprun/collectives.h"

namespace ddprun {

struct Wire {
  at::ScalarType type = at::kFloat;
  ReduceOp op = ReduceOp::sum;
  bool complex = false;      // as pairs of real numbers
  std::string problem = {};  // why the backend cannot, as the end of a sentence
};

const char* name_of(ReduceOp op);

// Depends only on values that are the same on all ranks, so that all refuse alike.
Wire wire_for(const at::Tensor& tensor, ReduceOp op);

// Has one dimension; uses the tensor's own memory if possible.
at::Tensor to_wire(const at::Tensor& tensor, const Wire& wire);
// Converts back into the tensor, from as many values as to_wire() returned.
void from_wire(const at::Tensor& tensor, const at::Tensor& reduced, const Wire& wire);

c10d::ReduceOp backend_op(const Wire& wire, const at::Tensor& tensor);
// Gloo's avg does not work for every call, so the sum is used: returns whether it has to be divided.
bool divides_after(const Wire& wire, const at::Tensor& tensor);

}  // namespace ddprun
