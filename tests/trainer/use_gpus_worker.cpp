// Asks for the GPUs, with "late" after LibTorch has been asked for CUDA, and prints their number, or the error. With
// "loaded" it says instead whether the GPU half is there before it is asked for.
#include <dlfcn.h>
#include <torch/torch.h>

#include <cstdio>
#include <string>

#include "ddprun/gpu.h"
#include "ddprun/prefork.h"

int main(int argc, char** argv) try {
  ddprun::prefork(argc, argv);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "loaded") {
    std::puts(dlopen("libddprun_gpu.so", RTLD_NOW | RTLD_NOLOAD) ? "loaded" : "not loaded");
    return 0;
  }
  if (what == "late") torch::manual_seed(1);
  const int count = ddprun::use_gpus();  // before hasCUDART() is asked
  std::printf("%d GPUs, CUDA %d\n", count, at::Context::hasCUDART());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
