#include <torch/torch.h>

#include "ddprun/collectives.h"
#include "trainer/tour/tour_context.h"

namespace ddprun::train {
namespace {

at::Tensor own_tensor(const TourContext& context, double factor) {
  return torch::tensor({factor * (context.rank() + 1), factor * 10.0 * (context.rank() + 1)},
                       torch::device(context.device).dtype(torch::kDouble));
}

at::Tensor sum_of_all(const TourContext& context, double factor) {
  const double sum = factor * context.world() * (context.world() + 1) / 2;
  return torch::tensor({sum, 10 * sum}, torch::kDouble);
}

}  // namespace

void show_reduce(TourContext& context) {
  const std::string only = context.world() == 1 ? " (With one rank there is nothing to tell them apart.)" : "";
  at::Tensor tensor = own_tensor(context, 1);
  std::string before = text_of(tensor);
  reduce(tensor, /*root=*/0, ReduceOp::sum, context.group);
  context.show("reduce(sum) to rank 0", "rank 0's tensor becomes the sum; the others' stay as they were." + only,
               {before, text_of(tensor), context.is_main() ? text_of(sum_of_all(context, 1)) : before});

  tensor = own_tensor(context, 1);
  before = text_of(tensor);
  all_reduce(tensor, ReduceOp::sum, context.group);
  context.show("all_reduce(sum)", "every rank's tensor becomes the sum.",
               {before, text_of(tensor), text_of(sum_of_all(context, 1))});

  // Typical uses: rank 0 reports a mean, and every rank continues with the same gradient.
  at::Tensor loss = torch::tensor(0.5 * (context.rank() + 1), torch::device(context.device).dtype(torch::kDouble));
  before = text_of(loss);
  reduce(loss, /*root=*/0, ReduceOp::avg, context.group);
  const auto mean = torch::tensor(0.25 * (context.world() + 1), torch::kDouble);
  context.show("reduce(avg) of a loss", "enough where one rank alone writes the log.",
               {before, text_of(loss), context.is_main() ? text_of(mean) : before});

  at::Tensor gradient = own_tensor(context, 0.5);
  before = text_of(gradient);
  all_reduce(gradient, ReduceOp::avg, context.group);
  context.show("all_reduce(avg) of a gradient", "every rank steps by the same mean, as DistributedDataParallel does.",
               {before, text_of(gradient), text_of(sum_of_all(context, 0.5) / context.world())});
}

}  // namespace ddprun::train
