// Collectives that move bytes, shared by tensors and objects; `call` is the name that the ranks compare.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "ddprun/collectives.h"

namespace ddprun::moves {

std::string call_name(const char* name, int root);  // as the ranks compare it

// Announces the call to the others (if calls are checked); `problem`: why this rank cannot, as the end of a sentence.
void announce(const ProcessGroup& group, const std::string& call, const std::string& problem);

std::string problem_of_root(int root, const ProcessGroup& group);

void all_reduce(const std::string& call, const at::Tensor& tensor, ReduceOp op, const std::string& problem,
                const ProcessGroup& group);
std::vector<at::Tensor> all_gather(const std::string& call, const at::Tensor& tensor, const std::string& problem,
                                   const ProcessGroup& group);
std::vector<at::Tensor> gather(const std::string& call, const at::Tensor& tensor, int root, const std::string& problem,
                               const ProcessGroup& group);
at::Tensor scatter(const std::string& call, const std::vector<at::Tensor>& tensors, int root,
                   const std::string& problem, const ProcessGroup& group);
// Root's bytes, a tensor of uint8; those of the others are ignored.
at::Tensor broadcast_bytes(const std::string& call, const at::Tensor& bytes, int root, const std::string& problem,
                           const ProcessGroup& group);

}  // namespace ddprun::moves
