// Copies of a value's tensors in host memory, in buffers that are used again: the first copy of many megabytes costs
// mostly the kernel's making of new pages.
#pragma once
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <vector>

namespace ddprun {

class Staging {
 public:
  // The same value on tensors of ours, valid until the next call. Nothing in it is shared with the original but
  // strings.
  c10::IValue copy(const c10::IValue& value);

 private:
  c10::IValue copy_part(const c10::IValue& value);
  at::Tensor copy_tensor(const at::Tensor& tensor);

  std::vector<at::Tensor> buffers_;
  std::size_t used_ = 0;
};

}  // namespace ddprun
