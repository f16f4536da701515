// Chooses among LibTorch's kernels for the same operation, for the whole process.
#pragma once
#include "trainer/config/options.h"

namespace ddprun::train {

// Applies --cudnn-benchmark and --float32-matmul. --deterministic is applied earlier: use_deterministic_algorithms().
void choose_kernels(const TrainingOptions& options);

}  // namespace ddprun::train
