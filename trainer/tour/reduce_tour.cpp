#include <torch/torch.h>

#include "ddprun/collectives.h"
#include "trainer/tour/stage.h"

namespace ddprun::train {
namespace {

at::Tensor own_tensor(const Stage& stage, double factor) {
  return torch::tensor({factor * (stage.rank() + 1), factor * 10.0 * (stage.rank() + 1)},
                       torch::device(stage.device).dtype(torch::kDouble));
}

at::Tensor sum_of_all(const Stage& stage, double factor) {
  const double sum = factor * stage.world() * (stage.world() + 1) / 2;
  return torch::tensor({sum, 10 * sum}, torch::kDouble);
}

}  // namespace

void show_reduce(Stage& stage) {
  const std::string only = stage.world() == 1 ? " (With one rank there is nothing to tell them apart.)" : "";
  at::Tensor tensor = own_tensor(stage, 1);
  std::string before = text_of(tensor);
  reduce(tensor, /*root=*/0, ReduceOp::sum, stage.group);
  stage.show("reduce(sum) to rank 0", "rank 0's tensor becomes the sum; the others' stay as they were." + only,
             {before, text_of(tensor), stage.is_main() ? text_of(sum_of_all(stage, 1)) : before});

  tensor = own_tensor(stage, 1);
  before = text_of(tensor);
  all_reduce(tensor, ReduceOp::sum, stage.group);
  stage.show("all_reduce(sum)", "every rank's tensor becomes the sum.",
             {before, text_of(tensor), text_of(sum_of_all(stage, 1))});

  // Typical uses: rank 0 reports a mean, and every rank continues with the same gradient.
  at::Tensor loss = torch::tensor(0.5 * (stage.rank() + 1), torch::device(stage.device).dtype(torch::kDouble));
  before = text_of(loss);
  reduce(loss, /*root=*/0, ReduceOp::avg, stage.group);
  const auto mean = torch::tensor(0.25 * (stage.world() + 1), torch::kDouble);
  stage.show("reduce(avg) of a loss", "enough where one rank alone writes the log.",
             {before, text_of(loss), stage.is_main() ? text_of(mean) : before});

  at::Tensor gradient = own_tensor(stage, 0.5);
  before = text_of(gradient);
  all_reduce(gradient, ReduceOp::avg, stage.group);
  stage.show("all_reduce(avg) of a gradient", "every rank steps by the same mean, as DistributedDataParallel does.",
             {before, text_of(gradient), text_of(sum_of_all(stage, 0.5) / stage.world())});
}

}  // namespace ddprun::train
