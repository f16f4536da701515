// Copies a value's tensors to reusable buffers in host memory: the first copy of many megabytes takes most of its time
// for page faults. Those of a GPU are copied into one arena of pinned memory, all at once.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace ddprun {

// Memory for tensors, in chunks that are kept for the next ones. Tensors in use keep their chunk alive.
class StagingArena {
 public:
  // Gives up the tensors placed so far.
  void reuse() { chunk_ = used_ = 0; }
  // A contiguous, unfilled tensor whose storage is its own bytes only. `pinned`: for the copies of a GPU; the same in
  // all calls.
  at::Tensor place(at::IntArrayRef sizes, at::ScalarType type, bool pinned);
  std::size_t bytes() const;  // of all chunks

 private:
  at::Tensor& chunk_for(std::size_t bytes, bool pinned);

  std::vector<at::Tensor> chunks_;
  std::size_t chunk_ = 0, used_ = 0;  // bytes of the chunk in use
};

class Staging {
 public:
  // The same value with our copies of the tensors, valid until the next call. Shares only strings with the original.
  c10::IValue copy(const c10::IValue& value);
  // The same value, with what `tensor_for` returns in each tensor's place: copy_tensor() of it, or another one. The
  // copies of earlier calls are given up.
  using TensorFor = std::function<at::Tensor(const at::Tensor&)>;
  c10::IValue rebuild(const c10::IValue& value, const TensorFor& tensor_for);
  // For `tensor_for` only: a GPU's bytes are there when rebuild() returns.
  at::Tensor copy_tensor(const at::Tensor& tensor);

 private:
  at::Tensor copy_from_gpu(const at::Tensor& tensor);
  void wait_for_copies();

  std::vector<at::Tensor> buffers_;
  std::size_t used_ = 0;
  StagingArena arena_;
  std::vector<c10::Stream> copying_;  // streams with copies under way
};

}  // namespace ddprun
