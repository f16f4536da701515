// The interface between `train` and its GPU library: functions, found by name.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

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

}  // namespace ddprun
