// The end of a c10d group.
#pragma once
#include <chrono>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace ddprun {

// Lets the group's calls end, as torch.distributed.destroy_process_group() does: without it NCCL's destructor aborts
// them. What takes longer than `limit` is aborted.
void shut_down(const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::chrono::milliseconds limit);

// Calls that peers will not answer end with an error.
void abort_calls(c10d::ProcessGroup& group);

}  // namespace ddprun
