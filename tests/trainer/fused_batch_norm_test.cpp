// SyncBatchNorm's way on GPUs, with what its kernels compute written again for the CPU.
#include "trainer/ddp/parallel/fused_batch_norm.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "tests/support/test.h"
#include "tests/trainer/rank_threads.h"

namespace {

constexpr double kEps = 1e-5, kMomentum = 0.1;
constexpr std::int64_t kChannels = 5;

std::vector<std::int64_t> all_but_channels(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions{0};
  for (std::int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

at::Tensor by_channel(const at::Tensor& values, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}

std::tuple<at::Tensor, at::Tensor> stats(const at::Tensor& input, double eps) {
  const auto [variance, mean] = at::var_mean(input.to(at::kFloat), all_but_channels(input), /*unbiased=*/false);
  return {mean, (variance + eps).rsqrt()};
}

// Counts are whole numbers where they are summed, as in the kernel (ATen/native/cuda/Normalization.cuh).
std::tuple<at::Tensor, at::Tensor> gather_stats(const at::Tensor& input, const at::Tensor& means,
                                                const at::Tensor& inverse_deviations,
                                                const std::optional<at::Tensor>& running_mean,
                                                const std::optional<at::Tensor>& running_variance, double momentum,
                                                double eps, const at::Tensor& counts) {
  const auto type = running_mean ? running_mean->scalar_type() : input.scalar_type();
  TORCH_CHECK(counts.scalar_type() == type && means.scalar_type() == type, "the kernel has one type for all");
  at::Tensor average = at::zeros_like(means[0]), squares = at::zeros_like(average);
  std::int64_t n = 0;
  for (std::int64_t rank = 0; rank < means.size(0); ++rank) {
    const auto count = counts[rank].item<float>(), before = static_cast<float>(n), factor = 1 / (before + count);
    const at::Tensor variance = inverse_deviations[rank].reciprocal().square() - eps;
    squares = squares + variance * count + (average - means[rank]).square() * before * count * factor;
    average = before * factor * average + count * factor * means[rank];
    n = static_cast<std::int64_t>(before + count);
  }
  if (running_mean) {
    running_mean->mul_(1 - momentum).add_(average, momentum);
    running_variance->mul_(1 - momentum).add_(squares / (n - 1), momentum);
  }
  return {average, (squares / n + eps).rsqrt()};
}

at::Tensor elemt(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                 const std::optional<at::Tensor>& bias, const at::Tensor& mean, const at::Tensor& inverse_deviation,
                 double) {
  at::Tensor output = (input - by_channel(mean, input)) * by_channel(inverse_deviation, input);
  if (weight) output = output * by_channel(*weight, input) + by_channel(*bias, input);
  return output.to(input.scalar_type());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_reduce(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& inverse_deviation,
    const std::optional<at::Tensor>& weight, bool, bool for_weight, bool for_bias) {
  const auto dimensions = all_but_channels(input);
  const at::Tensor sum = gradient.to(at::kFloat).sum(dimensions);
  const at::Tensor deviations = (gradient * (input - by_channel(mean, input))).to(at::kFloat).sum(dimensions);
  TORCH_CHECK(weight.has_value() == for_weight && for_weight == for_bias, "gradients are of the weights there are");
  return {sum, deviations, for_weight ? deviations * inverse_deviation : at::Tensor(), for_bias ? sum : at::Tensor()};
}

at::Tensor backward_elemt(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                          const at::Tensor& inverse_deviation, const std::optional<at::Tensor>& weight,
                          const at::Tensor& sum, const at::Tensor& deviations, const at::Tensor& counts) {
  TORCH_CHECK(counts.scalar_type() == at::kInt, "the kernel takes counts as int32");
  const at::Tensor share = counts.sum().to(at::kFloat).reciprocal();
  const at::Tensor projected = inverse_deviation.square() * deviations * share;
  const at::Tensor scale = weight ? *weight * inverse_deviation : inverse_deviation;
  const at::Tensor deviation = input - by_channel(mean, input);
  return ((gradient - by_channel(sum * share, input) - deviation * by_channel(projected, input)) *
          by_channel(scale, input))
      .to(input.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, CPU, kernels) {
  kernels.impl("batch_norm_stats", stats);
  kernels.impl("batch_norm_gather_stats_with_counts", gather_stats);
  kernels.impl("batch_norm_elemt", elemt);
  kernels.impl("batch_norm_backward_reduce", backward_reduce);
  kernels.impl("batch_norm_backward_elemt", backward_elemt);
}

struct Case {
  std::string name;
  std::vector<std::int64_t> samples;  // of each rank
  std::vector<std::int64_t> shape{kChannels, 4, 3};
  bool affine = true, running = true, half = false, channels_last = false;
};

const std::vector<Case> kCases{
    {.name = "even", .samples = {3, 3}},
    {.name = "uneven, vectors", .samples = {1, 5, 2}, .shape = {kChannels}},
    {.name = "the first rank has none", .samples = {0, 3, 2}},
    {.name = "a rank between has none", .samples = {3, 0, 2}},
    {.name = "the last ranks have none", .samples = {3, 0, 0}},
    {.name = "no weights", .samples = {3, 2}, .affine = false},
    {.name = "no running statistics", .samples = {3, 2}, .running = false},
    {.name = "running statistics of bfloat16", .samples = {3, 2}, .half = true},
    {.name = "channels last", .samples = {3, 2}, .channels_last = true},
};

// A generator of its own, as the ranks are threads.
at::Generator seeded(std::uint64_t seed) { return at::make_generator<at::CPUGeneratorImpl>(seed); }

struct Layer {
  Layer(const Case& one, at::ScalarType running_type) {
    if (one.affine) {
      affine = {torch::rand({kChannels}, seeded(4)) + 0.5, torch::rand({kChannels}, seeded(5))};
      affine.weight.requires_grad_();
      affine.bias.requires_grad_();
    }
    if (one.running)
      running = {torch::zeros({kChannels}, running_type), torch::ones({kChannels}, running_type), kMomentum};
  }
  AffineWeights affine;
  RunningStatistics running;
};

at::Tensor random_batch(const Case& one, bool gradient) {
  std::vector<std::int64_t> shape = one.shape;
  std::int64_t samples = 0;
  for (const std::int64_t count : one.samples) samples += count;
  shape.insert(shape.begin(), samples);
  return torch::randn(shape, seeded(gradient ? 8 : 7)) * 2 + 3;
}

at::Tensor part_of(const at::Tensor& whole, const Case& one, int rank) {
  std::int64_t first = 0;
  for (int before = 0; before < rank; ++before) first += one.samples[static_cast<std::size_t>(before)];
  const at::Tensor part =
      whole.detach().slice(0, first, first + one.samples[static_cast<std::size_t>(rank)]).contiguous();
  return one.channels_last ? part.contiguous(at::MemoryFormat::ChannelsLast) : part;
}

void require_close(const at::Tensor& a, const at::Tensor& b, const std::string& what, double tolerance = 1e-4) {
  if (!a.defined() && !b.defined()) return;
  if (!a.defined() || !b.defined() || a.sizes() != b.sizes()) throw std::runtime_error(what + " is of another shape");
  const at::Tensor one = a.to(at::kFloat), other = b.to(at::kFloat);
  if (!torch::allclose(one, other, tolerance, tolerance))
    throw std::runtime_error(what + " is up to " + c10::str((one - other).abs().max().item<float>()) + " away");
}

at::Tensor sum_over(const ProcessGroup& group, const at::Tensor& own) {
  std::vector<at::Tensor> sum{own.clone()};
  group.c10d()->allreduce(sum)->wait();
  return sum[0];
}

void compare_with_one_process(const Case& one, const ProcessGroup& group) {
  const at::Tensor whole = random_batch(one, false).requires_grad_(), gradient = random_batch(one, true);
  Layer alone(one, at::kFloat), ours(one, one.half ? at::kBFloat16 : at::kFloat);
  const at::Tensor expected =
      torch::batch_norm(whole, alone.affine.weight, alone.affine.bias, alone.running.mean, alone.running.variance,
                        /*training=*/true, kMomentum, kEps, /*cudnn_enabled=*/false);
  expected.backward(gradient);
  const at::Tensor part = part_of(whole, one, group.rank()).requires_grad_();
  const BatchStatistics statistics = gather_batch_statistics(part, kEps, group);
  const at::Tensor output = fused_batch_norm(part, ours.affine, statistics, ours.running, kEps, group);
  output.backward(part_of(gradient, one, group.rank()));
  require_close(output, part_of(expected, one, group.rank()), "the output");
  require_close(part.grad(), part_of(whole.grad(), one, group.rank()), "the input's gradient");
  if (one.affine) {
    require_close(sum_over(group, ours.affine.weight.grad()), alone.affine.weight.grad(), "the weight's gradient");
    require_close(sum_over(group, ours.affine.bias.grad()), alone.affine.bias.grad(), "the bias's gradient");
  }
  const double tolerance = one.half ? 0.01 : 1e-4;
  require_close(ours.running.mean, alone.running.mean, "the running mean", tolerance);
  require_close(ours.running.variance, alone.running.variance, "the running variance", tolerance);
}

}  // namespace

TEST_CASE("batch norm by fused kernels is that of one process on the whole batch", "[fused_batch_norm]") {
  for (const Case& one : kCases) {
    INFO(one.name);
    RankThreads ranks(static_cast<int>(one.samples.size()));
    CHECK_NOTHROW(ranks.each([&](ProcessGroup& group) { compare_with_one_process(one, group); }));
  }
}

TEST_CASE("the fused kernels see how many values each rank has, and no rank that has none as a whole one",
          "[fused_batch_norm]") {
  RankThreads ranks(3);
  CHECK_NOTHROW(ranks.each([](ProcessGroup& group) {
    const at::Tensor input = torch::rand({std::int64_t{2} * group.rank(), kChannels, 7}, seeded(1));
    const BatchStatistics statistics = gather_batch_statistics(input, kEps, group);
    require_close(statistics.counts().round(), torch::tensor({0.F, 14.F, 28.F}), "the counts");
    require_close(statistics.ranks[0].slice(0, kChannels, 2 * kChannels), torch::ones({kChannels}), "a deviation");
  }));
}
