#include "ddprun/freed_memory.h"

#include <sys/resource.h>
#include <torch/torch.h>

#include "tests/support/test.h"

namespace {

constexpr int kTensors = 64, kRounds = 10;
constexpr std::int64_t kElements = 256 << 10;  // 1 MiB
constexpr long kPages = kTensors * kElements * 4 / 4096;

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

void step() {
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < kTensors; ++i) tensors.push_back(torch::ones({kElements}));
}

}  // namespace

TEST_CASE("memory that a step has freed costs no page faults in the next one", "[freed_memory]") {
  unsetenv("MALLOC_TRIM_THRESHOLD_");
  unsetenv("GLIBC_TUNABLES");
  ddprun::keep_freed_memory();
  step();
  const long before = page_faults();
  for (int i = 0; i < kRounds; ++i) step();
  CHECK(page_faults() - before < kRounds * kPages / 10);
}
