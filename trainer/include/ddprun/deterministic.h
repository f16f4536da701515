// Runs that begin alike end alike, to the bit.
//
//   int main() {
//     ddprun::use_deterministic_algorithms();       // first of all
//     const auto group = ddprun::init_process_group();
//     ddprun::seed_everything(42, group.rank());
//
// What else has to be the same: the machine's kind, the number of ranks and threads, the library's version, and after
// a restart the order of DDP's buckets (BucketOrder, which a snapshot holds). DataLoader and the samplers have seeds of
// their own.
//
// Source: https://docs.pytorch.org/docs/stable/notes/randomness.html.
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)
namespace ddprun {

// For the whole process: operations of LibTorch compute in a deterministic way; those that have none throw, or only
// warn. cuDNN takes its deterministic kernels and does not choose among them by time. Memory that nobody has filled is
// filled. Costs some speed on a GPU, next to none on the CPU.
//
// Sets CUBLAS_WORKSPACE_CONFIG to :4096:8 where it is not set; Error where it holds what is neither that nor :16:8. So
// call it before the first use of a GPU, and before the process has threads that read the environment.
void use_deterministic_algorithms(bool warn_only = false);

// LibTorch's generators of the CPU and of all GPUs begin with seed + rank: random numbers within a step, as those of
// dropout, differ by rank. Models need no equal seeds, DistributedDataParallel gives rank 0's to all; code of its own
// that draws weights, as without DDP, takes rank 0 everywhere.
void seed_everything(std::uint64_t seed, int rank = 0);

}  // namespace ddprun
#pragma GCC visibility pop
