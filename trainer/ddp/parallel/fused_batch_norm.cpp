#include "trainer/ddp/parallel/fused_batch_norm.h"

#include <ATen/AccumulateType.h>
#include <torch/torch.h>

#include "rendezvous/channel/beat_scope.h"

namespace ddprun {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of a rank without values: the kernel that merges the ranks divides by the values so far, and no sum changes by it.
constexpr double kNoValues = 1e-30;

// The layouts that the kernels take.
at::Tensor for_kernels(const at::Tensor& tensor) {
  return tensor.is_contiguous(at::MemoryFormat::ChannelsLast) || tensor.is_contiguous(at::MemoryFormat::ChannelsLast3d)
             ? tensor
             : tensor.contiguous();
}

std::optional<at::Tensor> given(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

at::Tensor statistics_of(const at::Tensor& input, double eps) {
  const std::int64_t channels = input.size(1);
  if (input.numel() > 0) {
    const auto [mean, inverse_deviation] = at::batch_norm_stats(for_kernels(input), eps);
    const std::int64_t count = input.numel() / channels;
    return at::cat({mean, inverse_deviation, at::full({1}, static_cast<double>(count), mean.options())});
  }
  const auto options = input.options().dtype(at::toAccumulateType(input.scalar_type(), c10::DeviceType::CUDA));
  return at::cat({at::zeros({channels}, options), at::ones({channels}, options), at::full({1}, kNoValues, options)});
}

struct Moments {
  at::Tensor mean, inverse_deviation;  // [channels]
};

// The kernel has one type for running statistics, counts and results.
Moments merged(const BatchStatistics& statistics, const RunningStatistics& running, double eps) {
  const std::int64_t channels = (statistics.ranks.size(1) - 1) / 2;
  const at::Tensor means = statistics.ranks.slice(1, 0, channels);
  const auto typed = [&](const at::Tensor& one) { return one.defined() ? one.to(means.scalar_type()) : one; };
  const at::Tensor running_mean = typed(running.mean), running_variance = typed(running.variance);
  const auto [mean, inverse_deviation] = at::batch_norm_gather_stats_with_counts(
      /*input, for its type=*/means, means, statistics.ranks.slice(1, channels, 2 * channels), given(running_mean),
      given(running_variance), running.momentum, eps, statistics.counts());
  if (!running_mean.is_same(running.mean)) {
    running.mean.copy_(running_mean);
    running.variance.copy_(running_variance);
  }
  return {mean, inverse_deviation};
}

class FusedNormalise : public torch::autograd::Function<FusedNormalise> {
 public:
  // `counts` is [ranks] int32: the number of values per channel.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, const Moments& moments, const at::Tensor& counts,
                            double eps, const ProcessGroup& group) {
    context->save_for_backward({input, weight.value_or(at::Tensor()), moments.mean, moments.inverse_deviation, counts});
    context->saved_data["group"] = group.c10d();
    context->saved_data["of_training"] = in_training_thread();
    if (input.numel() == 0) return at::empty_like(input);
    return at::batch_norm_elemt(input, weight, bias, moments.mean, moments.inverse_deviation, eps);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse_deviation = saved[3];
    const at::Tensor gradient = for_kernels(gradients[0]);
    const bool for_input = context->needs_input_grad(0), affine = weight.defined();
    const auto [sum, sum_deviations, weight_gradient, bias_gradient] =
        input.numel() > 0 ? at::batch_norm_backward_reduce(gradient, input, mean, inverse_deviation, given(weight),
                                                           for_input, affine, affine)
                          : nothing(mean, weight);
    at::Tensor input_gradient;
    if (for_input) {
      std::vector<at::Tensor> sums{at::cat({sum, sum_deviations})};
      {
        const auto wait = WaitScope::in_backward("sync_bn", context->saved_data["of_training"].toBool());
        context->saved_data["group"].toCustomClass<c10d::ProcessGroup>()->allreduce(sums)->wait();
      }
      const auto halves = sums[0].chunk(2);
      const at::Tensor typed = affine ? weight.to(mean.scalar_type()) : weight;
      input_gradient = input.numel() > 0 ? at::batch_norm_backward_elemt(gradient, input, mean, inverse_deviation,
                                                                         given(typed), halves[0], halves[1], saved[4])
                                         : at::empty_like(input);
    }
    // This rank's own: DDP averages them, as for all parameters.
    return {input_gradient, weight_gradient, bias_gradient, {}, {}, {}, {}};
  }

 private:
  // What a rank without values adds to the sums.
  static std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> nothing(const at::Tensor& mean,
                                                                            const at::Tensor& weight) {
    const auto zeros = [](const at::Tensor& like) { return like.defined() ? at::zeros_like(like) : like; };
    return {zeros(mean), zeros(mean), zeros(weight), zeros(weight)};
  }
};

}  // namespace

BatchStatistics gather_batch_statistics(const at::Tensor& input, double eps, const ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  at::Tensor sent = statistics_of(input, eps);
  at::Tensor received = at::empty({group.world_size() * sent.numel()}, sent.options());
  const WaitScope wait("sync_bn");
  group.c10d()->_allgather_base(received, sent)->wait();
  return {received.view({group.world_size(), sent.numel()})};
}

at::Tensor fused_batch_norm(const at::Tensor& input, const AffineWeights& affine, const BatchStatistics& statistics,
                            const RunningStatistics& running, double eps, const ProcessGroup& group) {
  Moments moments;
  at::Tensor counts;
  {
    const torch::NoGradGuard no_grad;
    moments = merged(statistics, running, eps);
    counts = statistics.counts().to(at::kInt);
  }
  return FusedNormalise::apply(for_kernels(input), given(affine.weight), given(affine.bias), moments, counts, eps,
                               group);
}

}  // namespace ddprun
