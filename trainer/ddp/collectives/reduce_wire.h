// How a tensor travels to be reduced: in a type that the backend adds up, without a loss of meaning.
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
  std::string problem = {};  // why the backend cannot, as a sentence's end
};

const char* name_of(ReduceOp op);

// Depends on what is the same on all ranks only, so that all of them refuse alike.
Wire wire_for(const at::Tensor& tensor, ReduceOp op);

// One dimension; the tensor's own memory where that fits.
at::Tensor to_wire(const at::Tensor& tensor, const Wire& wire);
// Back into the tensor, from as many values as to_wire() gave.
void from_wire(const at::Tensor& tensor, const at::Tensor& reduced, const Wire& wire);

c10d::ReduceOp backend_op(const Wire& wire, const at::Tensor& tensor);
// Gloo has no avg of its own that works for every call: it is the sum, and this says that it has to be divided.
bool divides_after(const Wire& wire, const at::Tensor& tensor);

}  // namespace ddprun
