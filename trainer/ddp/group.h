// The ranks of one round as c10d knows them: a store to meet in, gloo between CPUs, NCCL between GPUs.
//
// Collectives block the caller and must be called by every rank in the same order. A peer that dies makes them throw,
// within milliseconds over gloo; the group is of no use afterwards (is_loss_of_peer tells such an exception from
// others).
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <exception>
#include <string>
#include <vector>

#include "trainer/ddp/rank_env.h"

namespace ddprun {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// Meets the other ranks. CPU tensors always travel by gloo; with a GPU as `device` its tensors travel by NCCL.
// Error where the store cannot be reached or opened.
Group join_group(const RankEnv& env, at::Device device);

bool is_loss_of_peer(const std::exception& error);

// The bytes of rank `from`, on every rank.
std::string broadcast_bytes(const Group& group, std::string bytes, int from = 0);

// Every rank's tensor in rank order, on rank 0; nothing elsewhere. CPU tensors, equal in shape and type everywhere.
std::vector<at::Tensor> gather_to_first(const Group& group, const at::Tensor& tensor);

// The sum over the ranks, on rank 0; undefined content elsewhere.
at::Tensor sum_to_first(const Group& group, const at::Tensor& tensor);

}  // namespace ddprun
