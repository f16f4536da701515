// Asks for the GPUs; with an argument after LibTorch has been asked for CUDA. Prints their number, or the error.
#include <torch/torch.h>

#include <cstdio>

#include "ddprun/gpu.h"

int main(int argc, char** /*argv*/) try {
  if (argc > 1) torch::manual_seed(1);
  const int count = ddprun::use_gpus();  // before hasCUDART() is asked
  std::printf("%d GPUs, CUDA %d\n", count, at::Context::hasCUDART());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
