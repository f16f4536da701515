// Broadcasts bytes from one rank to all.
#pragma once
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <string>

namespace ddprun {

// Returns the bytes of rank `from` on every rank; the others' are ignored. A collective.
std::string broadcast_bytes(const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::string bytes, int from = 0);

}  // namespace ddprun
