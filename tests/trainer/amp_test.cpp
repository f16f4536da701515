#include "ddprun/amp.h"

#include <torch/torch.h>

#include <limits>
#include <sstream>

#include "ddprun/clip_grad.h"
#include "tests/support/catch.h"
#include "tests/trainer/golden.h"

using namespace ddprun;
using namespace ddprun::test;

TEST_CASE("forty scaled steps have PyTorch's scales and weights, infinite gradients included", "[amp]") {
  torch::set_num_threads(1);
  torch::manual_seed(12);
  const at::Tensor weight = torch::randn({5, 3}).requires_grad_(),
                   other = torch::randn({4}, torch::kDouble).requires_grad_();
  torch::optim::SGD optimizer({weight, other}, torch::optim::SGDOptions(0.1).momentum(0.9));
  GradScaler scaler({.init_scale = 1 << 20, .growth_factor = 1.7, .backoff_factor = 0.3, .growth_interval = 4});
  CHECK(scaler.options().growth_interval == 4);
  std::ostringstream lines;
  std::vector<int> skipped;
  for (int step = 0; step < 40; ++step) {
    optimizer.zero_grad();
    const at::Tensor inputs = torch::randn({5, 3});
    if (step == 3 || step == 4 || step == 17 || step == 30)
      inputs[step % 5][1] = std::numeric_limits<float>::infinity();
    if (step == 22) inputs[0][0] = std::numeric_limits<float>::quiet_NaN();
    if (step == 33) inputs[2][2] = 1e36;
    const at::Tensor loss = (weight * inputs).sum() + (other * other).sum().to(torch::kFloat);
    scaler.scale(loss).backward();
    if (step % 3 == 1) {
      scaler.unscale(optimizer);
      clip_grad_norm({weight, other}, 2);
    }
    const std::string before = crc({weight, other});
    if (!scaler.step(optimizer)) {
      skipped.push_back(step);
      CHECK(crc({weight, other}) == before);
    }
    scaler.update();
    lines << step << ' ' << number(scaler.state().scale) << ' ' << scaler.state().growth_tracker << ' '
          << crc({weight, other}) << '\n';
  }
  CHECK(skipped == std::vector<int>{3, 4, 17, 22, 30, 33});
  CHECK(difference_to_python("scaler", lines.str()) == "");
}
