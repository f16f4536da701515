#include "trainer/ddp/snapshot/staging.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <algorithm>

namespace ddprun {
namespace {

// Chunks double in size: small models pin little, and LibTorch rounds pinned memory up to a power of two.
constexpr std::size_t kFirstChunk = std::size_t{1} << 20, kChunkMax = std::size_t{256} << 20;
constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

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

std::size_t StagingArena::bytes() const {
  std::size_t sum = 0;
  for (const at::Tensor& chunk : chunks_) sum += chunk.nbytes();
  return sum;
}

at::Tensor& StagingArena::chunk_for(std::size_t bytes, bool pinned) {
  while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].nbytes()) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const std::size_t size = std::max(bytes, std::clamp(this->bytes(), kFirstChunk, kChunkMax));
    chunks_.push_back(at::empty({static_cast<std::int64_t>(size)}, at::dtype(at::kByte).pinned_memory(pinned)));
  }
  return chunks_[chunk_];
}

at::Tensor StagingArena::place(at::IntArrayRef sizes, at::ScalarType type, bool pinned) {
  const std::size_t bytes = aligned(static_cast<std::size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type));
  const at::Tensor& chunk = chunk_for(bytes, pinned);
  std::uint8_t* begin = chunk.data_ptr<std::uint8_t>() + used_;
  used_ += bytes;
  return at::from_blob(
      begin, sizes, [chunk](void*) {}, at::dtype(type));
}

at::Tensor Staging::copy_from_gpu(const at::Tensor& tensor) {
  at::Tensor copy = arena_.place(tensor.sizes(), tensor.scalar_type(), /*pinned=*/true);
  copy.copy_(tensor, /*non_blocking=*/true);
  const c10::Stream stream = c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
  if (std::find(copying_.begin(), copying_.end(), stream) == copying_.end()) copying_.push_back(stream);
  return copy;
}

void Staging::wait_for_copies() {
  for (const c10::Stream& stream : copying_) stream.synchronize();
  copying_.clear();
}

at::Tensor Staging::copy_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (tensor.is_cuda()) return copy_from_gpu(tensor);
  if (used_ == buffers_.size()) buffers_.emplace_back();
  at::Tensor& buffer = buffers_[used_++];
  if (!buffer.defined() || buffer.sizes() != tensor.sizes() || buffer.scalar_type() != tensor.scalar_type())
    buffer = at::empty(tensor.sizes(), at::dtype(tensor.scalar_type()));
  buffer.copy_(tensor);
  return buffer;
}

c10::IValue Staging::rebuild(const c10::IValue& value, const TensorFor& tensor_for) {
  const torch::NoGradGuard no_grad;
  used_ = 0;
  arena_.reuse();
  c10::IValue result = rebuilt(value, tensor_for);
  wait_for_copies();
  return result;
}

c10::IValue Staging::copy(const c10::IValue& value) {
  return rebuild(value, [this](const at::Tensor& tensor) { return copy_tensor(tensor); });
}

}  // namespace ddprun
