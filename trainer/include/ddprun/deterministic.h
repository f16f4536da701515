// Makes runs reproducible, bit for bit.
//
//   int main() {
//     ddprun::use_deterministic_algorithms();       // before anything else
//     const auto group = ddprun::init_process_group();
//     ddprun::seed_everything(42, group.rank());
//
// These must be the same, too: the type of machine, the number of ranks and threads, the library's version, and after a
// restart the order of DDP's buckets (BucketOrder, which a snapshot holds). DataLoader and the samplers have their own
// seeds.
//
// Source: https://docs.pytorch.org/docs/stable/notes/randomness.html.
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)
namespace ddprun {

// For the whole process: operations of LibTorch become deterministic; those that cannot throw, or only warn. cuDNN uses
// its deterministic kernels only then, and does not choose among them by measured time. Uninitialised memory is filled.
// Costs some speed on a GPU, almost none on the CPU.
//
// Sets CUBLAS_WORKSPACE_CONFIG to :4096:8 if it is not set; throws an Error if it is set to anything but that or :16:8.
// So call it before the first use of a GPU, and before the process has threads that read the environment.
void use_deterministic_algorithms(bool warn_only = false);

// Seeds LibTorch's generators of the CPU and of all GPUs with seed + rank: random numbers within a step, such as those
// of dropout, differ by rank. Models need no equal seeds, as DistributedDataParallel copies rank 0's to all ranks; code
// that initialises weights without DDP passes rank 0 everywhere.
void seed_everything(std::uint64_t seed, int rank = 0);

}  // namespace ddprun
#pragma GCC visibility pop
