#include "trainer/machine/kernel_choice.h"

#include <ATen/Context.h>

#include "tests/support/test.h"

namespace {

// Leaves the process as the other tests expect it.
struct Defaults {
  ~Defaults() {
    at::globalContext().setBenchmarkCuDNN(false);
    at::globalContext().setFloat32MatmulPrecision("highest");
  }
};

}  // namespace

TEST_CASE("cuDNN is neither deterministic nor tries its kernels, unless asked to", "[kernel_choice]") {
  const Defaults defaults;
  const at::Context& context = at::globalContext();
  choose_kernels({});
  CHECK_FALSE(context.deterministicCuDNN());
  CHECK_FALSE(context.benchmarkCuDNN());
  choose_kernels({.cudnn_benchmark = true});
  CHECK(context.benchmarkCuDNN());
  choose_kernels({});
  CHECK_FALSE(context.benchmarkCuDNN());
}

TEST_CASE("float matrices are multiplied as precisely as asked", "[kernel_choice]") {
  const Defaults defaults;
  const at::Context& context = at::globalContext();
  choose_kernels({});
  CHECK(context.float32MatmulPrecision() == at::Float32MatmulPrecision::HIGHEST);
  choose_kernels({.float32_matmul = "high"});
  CHECK(context.float32MatmulPrecision() == at::Float32MatmulPrecision::HIGH);
  choose_kernels({.float32_matmul = "medium"});
  CHECK(context.float32MatmulPrecision() == at::Float32MatmulPrecision::MEDIUM);
}
