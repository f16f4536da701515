#include "trainer/ddp/snapshot/staging.h"

#include <torch/torch.h>

namespace ddprun {
namespace {

c10::IValue rebuilt(const c10::IValue& value, const Staging::TensorFor& tensor_for) {
  if (value.isTensor()) return tensor_for(value.toTensor());
  if (value.isGenericDict()) {
    c10::impl::GenericDict result(c10::AnyType::get(), c10::AnyType::get());
    for (const auto& item : value.toGenericDict()) result.insert(item.key(), rebuilt(item.value(), tensor_for));
    return result;
  }
  if (value.isList()) {
    c10::impl::GenericList result(c10::AnyType::get());
    for (const c10::IValue& item : value.toListRef()) result.push_back(rebuilt(item, tensor_for));
    return result;
  }
  if (value.isTuple()) {
    std::vector<c10::IValue> elements;
    for (const c10::IValue& item : value.toTupleRef().elements()) elements.push_back(rebuilt(item, tensor_for));
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  return value;  // numbers, strings, None
}

}  // namespace

at::Tensor Staging::copy_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (used_ == buffers_.size()) buffers_.emplace_back();
  at::Tensor& buffer = buffers_[used_++];
  if (!buffer.defined() || buffer.sizes() != tensor.sizes() || buffer.scalar_type() != tensor.scalar_type())
    buffer = at::empty(tensor.sizes(), at::dtype(tensor.scalar_type()).pinned_memory(tensor.is_cuda()));
  buffer.copy_(tensor);
  return buffer;
}

c10::IValue Staging::rebuild(const c10::IValue& value, const TensorFor& tensor_for) {
  const torch::NoGradGuard no_grad;
  used_ = 0;
  return rebuilt(value, tensor_for);
}

c10::IValue Staging::copy(const c10::IValue& value) {
  return rebuild(value, [this](const at::Tensor& tensor) { return copy_tensor(tensor); });
}

}  // namespace ddprun
