// The GPU half of LibTorch. Loading it costs every process 0.2 s and 350 MB, even without a GPU, so programs do not
// link it: it is loaded when a group of the backend nccl is made.
#pragma once

#pragma GCC visibility push(default)
namespace ddprun {

// For programs that use a GPU, or torch::manual_seed(), before they make a process group: call it first in main(),
// after prefork(). LibTorch remembers that it found no CUDA: where it has been asked before (torch::manual_seed(),
// torch::cuda::is_available(), a tensor on a GPU), this throws Error with a sentence. Also throws if the driver is not
// well. Returns the number of GPUs visible to this process; with none of them, or a driver that is too old (which is
// said on stderr), nothing is loaded and it returns 0.
int use_gpus();

}  // namespace ddprun
#pragma GCC visibility pop
