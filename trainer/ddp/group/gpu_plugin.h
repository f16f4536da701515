// The interface between `train` and its GPU library: one function, found by name.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace ddprun {

using MakeNccl = void(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size, at::Device device,
                      c10::intrusive_ptr<c10d::Backend>& result);
inline constexpr const char* kMakeNcclName = "ddprun_make_nccl";

}  // namespace ddprun
