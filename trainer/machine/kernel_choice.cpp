#include "trainer/machine/kernel_choice.h"

#include <ATen/Context.h>

namespace ddprun::train {

void choose_kernels(const TrainingOptions& options) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(options.cudnn_benchmark);
  // The highest is LibTorch's default, unless TORCH_ALLOW_TF32_CUBLAS_OVERRIDE is set.
  if (options.float32_matmul != "highest") context.setFloat32MatmulPrecision(options.float32_matmul);
}

}  // namespace ddprun::train
