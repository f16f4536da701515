// Copies a value's tensors to reusable buffers in host memory: the first copy of many megabytes takes most of its time
// for page faults. Those of a GPU are copied into one arena of pinned memory, all at once, or behind the next work.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "trainer/ddp/snapshot/device_copies.h"

namespace ddprun {

// Memory for tensors, kept for the next ones: as much as they need and no more, as pinned memory is taken from all.
// Tensors in use keep it alive.
class StagingArena {
 public:
  // What a tensor takes of it.
  static std::size_t room_for(at::IntArrayRef sizes, at::ScalarType type);
  // Room for tensors that take so many bytes together. Gives up those placed so far.
  void reserve(std::size_t bytes);
  // A contiguous, unfilled tensor whose storage is its own bytes only.
  at::Tensor place(at::IntArrayRef sizes, at::ScalarType type);
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> memory_;  // pinned where there is a GPU
  std::size_t bytes_ = 0, used_ = 0;
};

class Staging {
 public:
  // The same value with our copies of the tensors, valid until the next call. Shares only strings with the original.
  c10::IValue copy(const c10::IValue& value);
  // The same value, with what `tensor_for` returns in each tensor's place: copy_tensor() of it, or another one. The
  // copies of earlier calls are given up.
  using TensorFor = std::function<at::Tensor(const at::Tensor&)>;
  c10::IValue rebuild(const c10::IValue& value, const TensorFor& tensor_for);
  // The same, but a GPU's bytes are there after copies->wait() only. `changing`: tensors, by the address of their
  // storage, that the next work of the caller's stream changes.
  c10::IValue begin(const c10::IValue& value, const TensorFor& tensor_for, DeviceCopies& copies,
                    const std::set<const void*>& changing);
  // For `tensor_for` only: a GPU's bytes are there when rebuild() returns.
  at::Tensor copy_tensor(const at::Tensor& tensor);

 private:
  struct Background {
    DeviceCopies& copies;
    const std::set<const void*>& changing;
  };
  c10::IValue rebuilt_in_arena(const c10::IValue& value, const TensorFor& tensor_for);
  at::Tensor copy_from_gpu(const at::Tensor& tensor);
  void wait_for_copies();

  std::vector<at::Tensor> buffers_;
  std::size_t used_ = 0;
  StagingArena arena_;
  std::vector<c10::Stream> copying_;      // streams with copies under way
  std::optional<Background> background_;  // of the call of begin()
};

}  // namespace ddprun
