#include "ddprun/deterministic.h"

#include <torch/torch.h>

#include "tests/support/test.h"
#include "tests/trainer/golden.h"

namespace {

// Leaves the process as the other tests expect it.
struct Determinism {
  Determinism() { unsetenv("CUBLAS_WORKSPACE_CONFIG"); }
  ~Determinism() {
    at::globalContext().setDeterministicAlgorithms(false, false);
    unsetenv("CUBLAS_WORKSPACE_CONFIG");
  }
};

void unpool() {
  const auto [pooled, indices] = torch::max_pool2d_with_indices(torch::rand({1, 1, 4, 4}), 2);
  torch::max_unpool2d(pooled, indices, {4, 4});
}

// The weights after some steps, dropout included.
std::string trained(int rank) {
  seed_everything(3, rank);
  torch::nn::Sequential net(torch::nn::Conv2d(1, 8, 3), torch::nn::Dropout(0.5), torch::nn::Flatten(),
                            torch::nn::Linear(8 * 6 * 6, 4));
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    torch::cross_entropy_loss(net->forward(torch::randn({16, 1, 8, 8})), torch::randint(4, {16}, torch::kLong))
        .backward();
    optimizer.step();
  }
  return crc(net->parameters());
}

}  // namespace

TEST_CASE("operations that have no deterministic way are refused once determinism is asked for", "[deterministic]") {
  const Determinism determinism;
  CHECK_NOTHROW(unpool());
  use_deterministic_algorithms();
  CHECK_THROWS_WITH(unpool(), Contains("does not have a deterministic implementation"));
  CHECK_THROWS_WITH(torch::zeros(4).put_(torch::tensor({1, 1}), torch::tensor({2.F, 3.F})), Contains("deterministic"));
  CHECK(at::globalContext().deterministicCuDNN());
  CHECK_FALSE(at::globalContext().benchmarkCuDNN());
  use_deterministic_algorithms(/*warn_only=*/true);
  CHECK_NOTHROW(unpool());
}

TEST_CASE("memory that nobody has filled is the same in every run", "[deterministic]") {
  const Determinism determinism;
  use_deterministic_algorithms();
  CHECK(torch::empty({1000}).isnan().all().item<bool>());
}

TEST_CASE("cuBLAS is told to be deterministic, unless the user has told it how", "[deterministic]") {
  const Determinism determinism;
  use_deterministic_algorithms();
  CHECK(std::string(std::getenv("CUBLAS_WORKSPACE_CONFIG")) == ":4096:8");
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  use_deterministic_algorithms();
  CHECK(std::string(std::getenv("CUBLAS_WORKSPACE_CONFIG")) == ":16:8");
  setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0", 1);
  CHECK_THROWS_WITH(use_deterministic_algorithms(),
                    "cannot compute deterministically: CUBLAS_WORKSPACE_CONFIG is ':0:0'. Unset it, or let it be "
                    ":4096:8 or :16:8.");
}

TEST_CASE("two runs of one seed have equal bits, and ranks random numbers of their own", "[deterministic]") {
  const Determinism determinism;
  use_deterministic_algorithms();
  CHECK(trained(0) == trained(0));
  CHECK(trained(1) == trained(1));
  CHECK(trained(0) != trained(1));
}
