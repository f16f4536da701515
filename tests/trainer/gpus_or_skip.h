// For tests that need a GPU.
#pragma once
#include "tests/support/catch.h"
#include "trainer/ddp/group/gpu.h"

namespace ddprun::test {

// How many GPUs there are, ready for use in this process; 0: the test says so, and is skipped.
inline int gpus_or_skip() {
  static const int kGpus = [] {
    const int gpus = count_gpus();
    if (gpus > 0) load_gpu_support();  // before LibTorch looks for them, and remembers what it found
    return gpus;
  }();
  if (kGpus == 0) WARN("skipped: this machine shows no GPU, or the trainer was built without NCCL");
  return kGpus;
}

}  // namespace ddprun::test
