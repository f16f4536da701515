// Copies a value's tensors to reusable buffers in host memory: the first copy of many megabytes takes most of its time
// for page faults.
#pragma once
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace ddprun {

class Staging {
 public:
  // The same value with our copies of the tensors, valid until the next call. Shares only strings with the original.
  c10::IValue copy(const c10::IValue& value);
  // The same value, with what `tensor_for` returns in each tensor's place: copy_tensor() of it, or another one. The
  // copies of earlier calls are given up.
  using TensorFor = std::function<at::Tensor(const at::Tensor&)>;
  c10::IValue rebuild(const c10::IValue& value, const TensorFor& tensor_for);
  at::Tensor copy_tensor(const at::Tensor& tensor);

 private:
  std::vector<at::Tensor> buffers_;
  std::size_t used_ = 0;
};

}  // namespace ddprun
