#include "trainer/ddp/snapshot/memory_image.h"

#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/torch.h>

#include <charconv>
#include <cstring>

#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/torch_file.h"
#include "trainer/ddp/snapshot/unpickler.h"

namespace ddprun {
namespace {

void append_number(std::string& bytes, std::uint64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::uint64_t take_number(std::string_view& bytes) {
  std::uint64_t number = 0;
  if (bytes.size() < sizeof number) throw Malformed("it is cut short");
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes.remove_prefix(sizeof number);
  return number;
}

std::string_view take(std::string_view& bytes, std::uint64_t size) {
  if (size > bytes.size()) throw Malformed("it is cut short");
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

bool is_all_of_its_storage(const at::Tensor& tensor) {
  return tensor.is_contiguous() && tensor.storage_offset() == 0 && tensor.storage().nbytes() == tensor.nbytes();
}

at::Tensor dense_tensor(const at::Tensor& tensor, Staging& staging) {
  if (!tensor.defined()) return tensor;
  if (!tensor.is_cpu()) return staging.copy_tensor(tensor);
  return is_all_of_its_storage(tensor) ? tensor.detach() : tensor.detach().clone(at::MemoryFormat::Contiguous);
}

}  // namespace

c10::IValue dense_value(const c10::IValue& value, Staging& staging) {
  return staging.rebuild(value, [&](const at::Tensor& tensor) { return dense_tensor(tensor, staging); });
}

c10::IValue begin_dense_value(const c10::IValue& value, Staging& staging, DeviceCopies& copies,
                              const std::set<const void*>& changing) {
  return staging.begin(
      value, [&](const at::Tensor& tensor) { return dense_tensor(tensor, staging); }, copies, changing);
}

MemoryImage::MemoryImage(const c10::IValue& dense) {
  const torch::NoGradGuard no_grad;
  const Pickled pickled = pickle_of(dense);
  tensors_ = pickled.tensors;
  append_number(head_, tensors_.size());
  append_number(head_, pickled.bytes.size());
  for (const at::Tensor& tensor : tensors_) append_number(head_, tensor.nbytes());
  head_ += pickled.bytes;
  pieces_.emplace_back(head_);
  for (const at::Tensor& tensor : tensors_)
    pieces_.emplace_back(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
}

std::uint64_t MemoryImage::bytes() const {
  std::uint64_t sum = 0;
  for (const std::string_view piece : pieces_) sum += piece.size();
  return sum;
}

c10::IValue value_of_image(std::string_view image) {
  const std::uint64_t count = take_number(image), pickle_size = take_number(image);
  if (count > image.size() / sizeof(std::uint64_t)) throw Malformed("it is cut short");
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t i = 0; i < count; ++i) sizes.push_back(take_number(image));
  const Pickle pickle = read_pickle(take(image, pickle_size));
  std::vector<std::string_view> tensors;
  for (const std::uint64_t size : sizes) tensors.push_back(take(image, size));
  return to_ivalue(pickle, [&](const std::string& key) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
    if (error != std::errc() || end != key.data() + key.size() || number >= tensors.size())
      throw Malformed("it lacks a tensor");
    return tensors[number];
  });
}

}  // namespace ddprun
