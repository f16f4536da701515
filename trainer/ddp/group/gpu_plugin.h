// The interface between `train` and its GPU library: functions, found by name.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstddef>
#include <memory>

#include "trainer/ddp/group/step_graph.h"

namespace ddprun {

using MakeNccl = void(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size, at::Device device,
                      c10::intrusive_ptr<c10d::Backend>& result);
inline constexpr const char* kMakeNcclName = "ddprun_make_nccl";

using UseOwnStream = void(at::Device device);
inline constexpr const char* kUseOwnStreamName = "ddprun_use_own_stream";

using MakeStepGraph = void(std::unique_ptr<StepGraph>& result);
inline constexpr const char* kMakeStepGraphName = "ddprun_make_step_graph";

// False: the driver refuses.
using PinMemory = bool(void* begin, std::size_t bytes);
inline constexpr const char* kPinMemoryName = "ddprun_pin_memory";
using UnpinMemory = void(void* begin);
inline constexpr const char* kUnpinMemoryName = "ddprun_unpin_memory";

}  // namespace ddprun
