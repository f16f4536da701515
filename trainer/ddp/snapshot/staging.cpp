#include "trainer/ddp/snapshot/staging.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "rendezvous/base/error.h"
#include "trainer/ddp/group/gpu.h"

namespace ddprun {
namespace {

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

// Whole pages, which the GPU may then use; where it cannot, they are memory as any other.
std::shared_ptr<void> new_pinned_memory(std::size_t bytes) {
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  const bool pinned = pin_memory(begin, bytes);
  return {begin, [bytes, pinned](void* memory) {
            if (pinned) unpin_memory(memory);
            munmap(memory, bytes);
          }};
}

}  // namespace

std::size_t StagingArena::room_for(at::IntArrayRef sizes, at::ScalarType type) {
  return aligned(static_cast<std::size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type));
}

void StagingArena::reserve(std::size_t bytes) {
  used_ = 0;
  if (bytes == bytes_) return;
  memory_.reset();  // before there is more
  bytes_ = 0;
  if (bytes == 0) return;
  memory_ = new_pinned_memory(bytes);
  bytes_ = bytes;
}

at::Tensor StagingArena::place(at::IntArrayRef sizes, at::ScalarType type) {
  const std::size_t bytes = room_for(sizes, type);
  check(used_ + bytes <= bytes_, "an arena has room for what is placed in it");
  std::uint8_t* begin = static_cast<std::uint8_t*>(memory_.get()) + used_;
  used_ += bytes;
  return at::from_blob(
      begin, sizes, [memory = memory_](void*) {}, at::dtype(type));
}

at::Tensor Staging::copy_from_gpu(const at::Tensor& tensor) {
  const at::Tensor copy = arena_.place(tensor.sizes(), tensor.scalar_type());
  if (background_) {
    const bool first = background_->changing.contains(tensor.storage().data());
    first ? background_->copies.copy_first(copy, tensor) : background_->copies.copy(copy, tensor);
    return copy;
  }
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
  if (!tensor.is_cpu()) return copy_from_gpu(tensor);
  if (used_ == buffers_.size()) buffers_.emplace_back();
  at::Tensor& buffer = buffers_[used_++];
  if (!buffer.defined() || buffer.sizes() != tensor.sizes() || buffer.scalar_type() != tensor.scalar_type())
    buffer = at::empty(tensor.sizes(), at::dtype(tensor.scalar_type()));
  buffer.copy_(tensor);
  return buffer;
}

c10::IValue Staging::rebuilt_in_arena(const c10::IValue& value, const TensorFor& tensor_for) {
  const torch::NoGradGuard no_grad;
  used_ = 0;
  std::size_t room = 0;
  rebuilt(value, [&](const at::Tensor& tensor) {
    if (tensor.defined() && !tensor.is_cpu()) room += StagingArena::room_for(tensor.sizes(), tensor.scalar_type());
    return tensor;
  });
  arena_.reserve(room);
  return rebuilt(value, tensor_for);
}

c10::IValue Staging::rebuild(const c10::IValue& value, const TensorFor& tensor_for) {
  background_.reset();
  c10::IValue result = rebuilt_in_arena(value, tensor_for);
  wait_for_copies();
  return result;
}

c10::IValue Staging::begin(const c10::IValue& value, const TensorFor& tensor_for, DeviceCopies& copies,
                           const std::set<const void*>& changing) {
  background_.emplace(Background{copies, changing});
  c10::IValue result = rebuilt_in_arena(value, tensor_for);
  background_.reset();
  copies.end();
  return result;
}

c10::IValue Staging::copy(const c10::IValue& value) {
  return rebuild(value, [this](const at::Tensor& tensor) { return copy_tensor(tensor); });
}

}  // namespace ddprun
