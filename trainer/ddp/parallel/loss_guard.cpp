#include "ddprun/loss_guard.h"

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "rendezvous/base/error.h"
#include "rendezvous/channel/beat_scope.h"
#include "trainer/ddp/group/group_state.h"

namespace ddprun {
namespace {

// A rank's value for a good loss. Bad ones are lower: the minimum over the ranks names the lowest rank with a bad one.
constexpr std::int64_t kFinite = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kKinds = 2;
constexpr std::int64_t kNan = 0, kInfinite = 1;

std::int64_t encode_loss(const at::Tensor& loss, int rank) {
  const torch::NoGradGuard no_grad;
  // Sums of finite floats are finite doubles, and any other value makes the sum infinite or NaN.
  const double sum = loss.detach().to(torch::kDouble).sum().item<double>();
  return std::isfinite(sum) ? kFinite : rank * kKinds + (std::isnan(sum) ? kNan : kInfinite);
}

std::int64_t minimum_over_ranks(std::int64_t own, const ProcessGroup& group) {
  std::vector<at::Tensor> code{torch::full({1}, own, torch::device(group.device()).dtype(torch::kLong))};
  c10d::AllreduceOptions minimum;
  minimum.reduceOp = c10d::ReduceOp::MIN;
  const WaitScope wait("guard", group.world_size() > 1);
  run_c10d_call(group, "LossGuard::admits()", [&](c10d::ProcessGroup& c10d) { return c10d.allreduce(code, minimum); });
  return code[0].item<std::int64_t>();
}

}  // namespace

LossGuard::LossGuard(const LossGuardOptions& options, const ProcessGroup& group) : options_(options), group_(group) {}

bool LossGuard::admits(const at::Tensor& loss, std::int64_t step) {
  const std::int64_t code = minimum_over_ranks(encode_loss(loss, group_.rank()), group_);
  if (code == kFinite) {
    in_a_row_ = 0;
    return true;
  }
  if (in_a_row_ < options_.skips_in_a_row_max) {
    ++in_a_row_;
    ++skipped_;
    return false;
  }
  throw Error("training ends at step " + std::to_string(step),
              "the loss of rank " + std::to_string(code / kKinds) + " is " +
                  (code % kKinds == kNan ? "not a number" : "infinite") +
                  (in_a_row_ > 0 ? ", and " + std::to_string(in_a_row_) + " steps before this one were skipped" : ""),
              "Lower the learning rate, clip the gradients, or look at that rank's samples.");
}

}  // namespace ddprun
