// Copies a value's tensors to reusable buffers in host memory: the first copy of many megabytes takes most of its time
// for page faults.
#pragma once
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <vector>

namespace ddprun {

class Staging {
 public:
  // The same value with our copies of the tensors, valid until the next call. Shares only strings with the original.
  c10::IValue copy(const c10::IValue& value);

 private:
  c10::IValue copy_part(const c10::IValue& value);
  at::Tensor copy_tensor(const at::Tensor& tensor);

  std::vector<at::Tensor> buffers_;
  std::size_t used_ = 0;
};

}  // namespace ddprun
