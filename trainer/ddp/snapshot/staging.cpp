#include "trainer/ddp/snapshot/staging.h"

#include <torch/torch.h>

namespace ddprun {

at::Tensor Staging::copy_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (used_ == buffers_.size()) buffers_.emplace_back();
  at::Tensor& buffer = buffers_[used_++];
  if (!buffer.defined() || buffer.sizes() != tensor.sizes() || buffer.scalar_type() != tensor.scalar_type())
    buffer = at::empty(tensor.sizes(), at::dtype(tensor.scalar_type()).pinned_memory(tensor.is_cuda()));
  buffer.copy_(tensor);
  return buffer;
}

c10::IValue Staging::copy_part(const c10::IValue& value) {
  if (value.isTensor()) return copy_tensor(value.toTensor());
  if (value.isGenericDict()) {
    c10::impl::GenericDict result(c10::AnyType::get(), c10::AnyType::get());
    for (const auto& item : value.toGenericDict()) result.insert(item.key(), copy_part(item.value()));
    return result;
  }
  if (value.isList()) {
    c10::impl::GenericList result(c10::AnyType::get());
    for (const c10::IValue& item : value.toListRef()) result.push_back(copy_part(item));
    return result;
  }
  if (value.isTuple()) {
    std::vector<c10::IValue> elements;
    for (const c10::IValue& item : value.toTupleRef().elements()) elements.push_back(copy_part(item));
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  return value;  // numbers, strings, None
}

c10::IValue Staging::copy(const c10::IValue& value) {
  const torch::NoGradGuard no_grad;
  used_ = 0;
  return copy_part(value);
}

}  // namespace ddprun
