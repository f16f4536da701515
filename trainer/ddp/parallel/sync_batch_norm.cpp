#include "ddprun/sync_batch_norm.h"

#include <torch/torch.h>

#include <numeric>
#include <unordered_map>

#include "rendezvous/base/error.h"
#include "rendezvous/channel/beat_scope.h"
#include "trainer/ddp/parallel/fused_batch_norm.h"

namespace ddprun {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Channels are dimension 1; sums run over the others.
std::vector<std::int64_t> all_but_channels(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions;
  for (std::int64_t i = 0; i < input.dim(); ++i)
    if (i != 1) dimensions.push_back(i);
  return dimensions;
}

at::Tensor by_channel(const at::Tensor& values, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}

struct Statistics {
  at::Tensor mean, squares;  // [channels] double; squares: the sum of squared deviations from the mean
  double count = 0;          // number of values per channel
};

Statistics statistics_of(const at::Tensor& input) {
  const std::int64_t channels = input.size(1);
  const auto type = torch::dtype(torch::kDouble).device(input.device());
  const auto count = static_cast<double>(channels > 0 ? input.numel() / channels : 0);
  if (count == 0) return {torch::zeros({channels}, type), torch::zeros({channels}, type), 0};
  const auto [variance, mean] = at::var_mean(input.to(torch::kFloat), all_but_channels(input), /*unbiased=*/false);
  return {mean.to(torch::kDouble), variance.to(torch::kDouble) * count, count};
}

Statistics merged(const Statistics& a, const Statistics& b) {
  if (b.count == 0) return a;
  if (a.count == 0) return b;
  const double count = a.count + b.count;
  const at::Tensor difference = b.mean - a.mean;
  return {a.mean + difference * (b.count / count),
          a.squares + b.squares + difference.square() * (a.count * b.count / count), count};
}

// Over all ranks, the same bits on each. On the CPU.
Statistics statistics_of_all(const Statistics& own, const ProcessGroup& group) {
  const std::int64_t channels = own.mean.numel();
  at::Tensor sent = torch::cat({own.mean, own.squares, torch::full({1}, own.count, own.mean.options())});
  at::Tensor received = torch::empty({group.world_size() * sent.numel()}, sent.options());
  {
    const WaitScope wait("sync_bn");
    group.c10d()->_allgather_base(received, sent)->wait();
  }
  Statistics all;
  for (const at::Tensor& rank : received.split(sent.numel()))
    all = merged(all, {rank.slice(0, 0, channels), rank.slice(0, channels, 2 * channels),
                       rank.const_data_ptr<double>()[2 * channels]});
  return all;
}

class Normalise : public torch::autograd::Function<Normalise> {
 public:
  // `mean` and `inverse_deviation` ([channels] float) are over all ranks, `count` is the number of values per channel.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, const at::Tensor& mean,
                            const at::Tensor& inverse_deviation, double count, const ProcessGroup& group) {
    context->save_for_backward({input, weight.value_or(at::Tensor()), mean, inverse_deviation});
    context->saved_data["count"] = count;
    context->saved_data["group"] = group.c10d();
    at::Tensor output = normal(input, mean, inverse_deviation);
    if (weight) output = output * by_channel(*weight, input).to(torch::kFloat);
    if (bias) output = output + by_channel(*bias, input).to(torch::kFloat);
    return output.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &inverse_deviation = saved[3];
    const at::Tensor gradient = gradients[0].to(torch::kFloat);
    const at::Tensor normalised = normal(input, saved[2], inverse_deviation);
    const auto dimensions = all_but_channels(input);
    const at::Tensor sum = gradient.sum(dimensions), sum_normalised = (gradient * normalised).sum(dimensions);
    at::Tensor input_gradient;
    if (context->needs_input_grad(0)) {
      std::vector<at::Tensor> sums{torch::cat({sum, sum_normalised})};
      {
        const WaitScope wait("sync_bn");
        context->saved_data["group"].toCustomClass<c10d::ProcessGroup>()->allreduce(sums)->wait();
      }
      const auto means = (sums[0] / context->saved_data["count"].toDouble()).chunk(2);
      at::Tensor scale = inverse_deviation;
      if (weight.defined()) scale = scale * weight.to(torch::kFloat);
      input_gradient = ((gradient - by_channel(means[0], input) - normalised * by_channel(means[1], input)) *
                        by_channel(scale, input))
                           .to(input.scalar_type());
    }
    // This rank's own: DDP averages them, as for all parameters.
    return {input_gradient,
            weight.defined() ? sum_normalised : at::Tensor(),
            weight.defined() ? sum : at::Tensor(),
            {},
            {},
            {},
            {}};
  }

 private:
  static at::Tensor normal(const at::Tensor& input, const at::Tensor& mean, const at::Tensor& inverse_deviation) {
    return (input.to(torch::kFloat) - by_channel(mean, input)) * by_channel(inverse_deviation, input);
  }
};

void require_two_values(double count) {
  if (count >= 2) return;
  throw Error("SyncBatchNorm cannot train on " + std::to_string(static_cast<int>(count)) + " value per channel",
              "a variance needs two, over all ranks together");
}

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() || module.as<torch::nn::BatchNorm2dImpl>() ||
         module.as<torch::nn::BatchNorm3dImpl>();
}

std::shared_ptr<SyncBatchNormImpl> sync_batch_norm_of(const torch::nn::Module& module) {
  if (const auto* one = module.as<torch::nn::BatchNorm1dImpl>()) return std::make_shared<SyncBatchNormImpl>(*one);
  if (const auto* two = module.as<torch::nn::BatchNorm2dImpl>()) return std::make_shared<SyncBatchNormImpl>(*two);
  return std::make_shared<SyncBatchNormImpl>(*module.as<torch::nn::BatchNorm3dImpl>());
}

void require_convertible(const torch::nn::Module& root) {
  const std::string remedy = "Declare it as ddprun::SyncBatchNorm, or put it into a Sequential.";
  if (is_batch_norm(root))
    throw Error("cannot convert a BatchNorm by itself", "it is not in a module that could hold the new layer", remedy);
  for (const auto& part : root.named_modules()) {
    if (part.value()->as<torch::nn::SequentialImpl>()) continue;
    for (const auto& child : part.value()->named_children())
      if (is_batch_norm(*child.value()))
        throw Error("cannot convert the layer '" + (part.key().empty() ? "" : part.key() + ".") + child.key() + "'",
                    "it is a member of its module, which would keep using the old one", remedy);
  }
}

// A layer that is used in two places stays one layer.
using Converted = std::unordered_map<const torch::nn::Module*, std::shared_ptr<SyncBatchNormImpl>>;

void replace_in(torch::nn::SequentialImpl& layers, Converted& all) {
  const auto children = layers.named_children();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto layer = (layers.begin() + static_cast<std::ptrdiff_t>(i))->ptr();
    if (!is_batch_norm(*layer)) continue;
    auto& converted = all[layer.get()];
    if (!converted) converted = sync_batch_norm_of(*layer);
    for (const auto& child : children)
      if (child.value() == layer) layers.replace_module(child.key(), converted);
    *(layers.begin() + static_cast<std::ptrdiff_t>(i)) = torch::nn::AnyModule(converted);
  }
}

}  // namespace

// The optimizer identifies parameters by object, so they are shared; buffers are copied by value.
void SyncBatchNormImpl::adopt(const Parameters& parameters, const Buffers& buffers) {
  parameters_["weight"] = weight = parameters.weight;
  parameters_["bias"] = bias = parameters.bias;
  if (!options.track_running_stats()) return;
  running_mean.set_data(buffers.running_mean);
  running_var.set_data(buffers.running_var);
  num_batches_tracked.set_data(buffers.num_batches_tracked);
}

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features()) return;
  throw Error("SyncBatchNorm of " + std::to_string(options.num_features()) + " channels",
              "its input has the shape " + c10::str(input.sizes()), "Channels are the second dimension.");
}

double SyncBatchNormImpl::next_average_factor() {
  num_batches_tracked += 1;
  return options.momentum() ? *options.momentum() : 1 / num_batches_tracked.item<double>();
}

void SyncBatchNormImpl::update_running(const at::Tensor& mean, const at::Tensor& unbiased_variance) {
  const torch::NoGradGuard no_grad;
  const double factor = next_average_factor();
  running_mean.mul_(1 - factor).add_(mean.to(running_mean.scalar_type()), factor);
  running_var.mul_(1 - factor).add_(unbiased_variance.to(running_var.scalar_type()), factor);
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  if (!group_ || group_.world_size() == 1 || !is_training()) return BatchNormImplBase::forward(input);
  _check_input_dim(input);
  return input.is_cuda() ? forward_fused(input) : forward_on_cpu(input);
}

at::Tensor SyncBatchNormImpl::forward_on_cpu(const at::Tensor& input) {
  Statistics all;
  {
    const torch::NoGradGuard no_grad;
    all = statistics_of_all(statistics_of(input), group_);
  }
  require_two_values(all.count);
  if (options.track_running_stats()) update_running(all.mean, all.squares / (all.count - 1));
  const at::Tensor inverse_deviation = (all.squares / all.count + options.eps()).rsqrt();
  const auto given = [](const at::Tensor& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; };
  return Normalise::apply(input, given(weight), given(bias), all.mean.to(torch::kFloat),
                          inverse_deviation.to(torch::kFloat), all.count, group_);
}

at::Tensor SyncBatchNormImpl::forward_fused(const at::Tensor& input) {
  const BatchStatistics all = gather_batch_statistics(input, options.eps(), group_);
  const std::int64_t channels = input.size(1), own = channels > 0 ? input.numel() / channels : 0;
  if (own < 2) require_two_values(all.counts().sum().item<double>());  // else no need to wait for the GPU
  RunningStatistics running;
  if (options.track_running_stats()) running = {running_mean, running_var, next_average_factor()};
  return fused_batch_norm(input, {weight, bias}, all, running, options.eps(), group_);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "ddprun::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps()
         << ", synchronized=" << (group_ ? "true" : "false") << ")";
}

std::size_t convert_sync_batchnorm(torch::nn::Module& root, const ProcessGroup& group) {
  require_convertible(root);
  Converted converted;
  if (auto* layers = root.as<torch::nn::SequentialImpl>()) replace_in(*layers, converted);
  for (const auto& module : root.modules(/*include_self=*/false))
    if (auto* layers = module->as<torch::nn::SequentialImpl>()) replace_in(*layers, converted);
  std::size_t count = 0;
  ProcessGroup shared = group;
  if (!shared) {
    std::vector<int> ranks(static_cast<std::size_t>(default_group().world_size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    shared = new_group(ranks);
  }
  for (const auto& module : root.modules())
    if (auto* layer = module->as<SyncBatchNormImpl>()) {
      layer->synchronize(shared);
      ++count;
    }
  return count;
}

}  // namespace ddprun
