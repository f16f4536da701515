#include <torch/torch.h>

#include "ddprun/sync_batch_norm.h"
#include "tests/support/error_text.h"
#include "tests/trainer/ddp_worker.h"

namespace ddprun::test {
namespace {

namespace nn = torch::nn;

struct Case {
  std::string name;
  nn::BatchNormOptions options{5};
  std::vector<std::int64_t> shape;    // of a sample, channels first
  std::vector<std::int64_t> samples;  // of each rank; the last number goes for all that follow
  double offset = 0;
  double tolerance = 1e-6;  // relative to the largest value
};

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({.name = "images", .shape = {5, 4, 3}, .samples = {3}});
  all.push_back({.name = "vectors", .shape = {5}, .samples = {4}});
  all.push_back({.name = "volumes", .shape = {5, 2, 3, 2}, .samples = {2}});
  all.push_back({.name = "uneven", .shape = {5, 4, 3}, .samples = {1, 5, 2}});
  all.push_back({.name = "a rank without samples", .shape = {5, 4}, .samples = {0, 3, 2}});
  all.push_back({.name = "a large mean", .shape = {5, 4, 3}, .samples = {3}, .offset = 100, .tolerance = 1e-4});
  all.push_back(
      {.name = "no weights", .options = nn::BatchNormOptions(5).affine(false), .shape = {5, 4}, .samples = {3}});
  all.push_back({.name = "an average of all",
                 .options = nn::BatchNormOptions(5).momentum(std::nullopt),
                 .shape = {5, 4},
                 .samples = {3}});
  all.push_back({.name = "no running statistics",
                 .options = nn::BatchNormOptions(5).track_running_stats(false),
                 .shape = {5, 4},
                 .samples = {3}});
  return all;
}

std::int64_t samples_of(const Case& one, int rank) {
  return one.samples[std::min(static_cast<std::size_t>(rank), one.samples.size() - 1)];
}

at::Tensor whole_batch(const Case& one, const ProcessGroup& group, int step) {
  const int ranks = group.world_size();
  std::vector<std::int64_t> shape = one.shape;
  std::int64_t samples = 0;
  for (int rank = 0; rank < ranks; ++rank) samples += samples_of(one, rank);
  shape.insert(shape.begin(), samples);
  torch::manual_seed(50 + step);
  return (torch::randn(shape) * (step + 1) + one.offset).to(group.device());
}

at::Tensor part_of(const at::Tensor& whole, const Case& one, int rank) {
  std::int64_t first = 0;
  for (int before = 0; before < rank; ++before) first += samples_of(one, before);
  return whole.slice(0, first, first + samples_of(one, rank));
}

void same(const at::Tensor& a, const at::Tensor& b, const Case& one, const char* what) {
  if (!a.defined() && !b.defined()) return;
  require(a.defined() && b.defined() && a.sizes() == b.sizes(), one.name + ": " + what + " is of another shape");
  if (a.numel() == 0) return;
  const double apart = (a - b).abs().max().item<double>(), largest = std::max(1.0, b.abs().max().item<double>());
  // A GPU's kernels keep the statistics as floats, the CPU's as doubles.
  const double tolerance = a.is_cpu() ? one.tolerance : 10 * one.tolerance;
  require(apart <= tolerance * largest, one.name + ": " + what + " is " + std::to_string(apart) + " away");
}

void check(const Case& one, const ProcessGroup& group) {
  SyncBatchNorm ours(one.options);
  ours->synchronize(group);
  SyncBatchNorm alone(one.options);  // without a group it is BatchNorm
  ours->to(group.device());
  alone->to(group.device());
  if (one.options.affine())
    for (const auto& layer : {ours, alone}) {
      const torch::NoGradGuard no_grad;
      torch::manual_seed(9);
      layer->weight.uniform_(0.5, 2);
      layer->bias.uniform_(-1, 1);
    }
  for (int step = 0; step < 3; ++step) {
    const at::Tensor whole = whole_batch(one, group, step).requires_grad_();
    const at::Tensor part = part_of(whole.detach(), one, group.rank()).clone().requires_grad_();
    const at::Tensor weights_of_loss = torch::rand_like(whole.detach());
    const at::Tensor expected = alone->forward(whole), output = ours->forward(part);
    same(output, part_of(expected, one, group.rank()), one, "the output");
    (expected * weights_of_loss).sum().backward();
    (output * part_of(weights_of_loss, one, group.rank())).sum().backward();
    same(part.grad(), part_of(whole.grad(), one, group.rank()), one, "the input's gradient");
    if (one.options.affine()) {
      same(sum_over(group, ours->weight.grad()), alone->weight.grad(), one, "the weight's gradient");
      same(sum_over(group, ours->bias.grad()), alone->bias.grad(), one, "the bias's gradient");
    }
    same(ours->running_mean, alone->running_mean, one, "the running mean");
    same(ours->running_var, alone->running_var, one, "the running variance");
  }
  if (one.options.track_running_stats())
    require(ours->num_batches_tracked.item<int>() == 3, one.name + ": batches are counted");
  ours->eval();
  alone->eval();
  const at::Tensor whole = whole_batch(one, group, 7);
  same(ours->forward(whole), alone->forward(whole), one, "an evaluation");
  if (group.rank() == 0) ours->forward(whole);  // it is each rank's own
}

struct Layers : nn::Module {
  at::Tensor forward(const at::Tensor& images) { return last(second->forward(first->forward(images))); }
  nn::Sequential first =
      register_module("first", nn::Sequential(nn::Conv2d(1, 4, 3), nn::BatchNorm2d(4), nn::ReLU(), nn::Flatten()));
  nn::BatchNorm1d twice{16};
  nn::Sequential second = register_module("second", nn::Sequential(twice, nn::ReLU(), twice, nn::Linear(16, 2)));
  SyncBatchNorm last = register_module("last", SyncBatchNorm(2));
};

struct Member : nn::Module {
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(4));
};
struct Holder : nn::Module {
  std::shared_ptr<Member> part = register_module("part", std::make_shared<Member>());
};

}  // namespace

void check_sync_batch_norm(const ProcessGroup& group, const Words&) {
  for (const Case& one : cases()) check(one, group);
  SyncBatchNorm layer(5);
  layer->synchronize(group);
  layer->to(group.device());
  const at::Tensor half = torch::randn({4, 5}).to(group.device(), torch::kBFloat16);
  require(layer->forward(half).scalar_type() == torch::kBFloat16, "bfloat16 stays bfloat16");
}

void check_conversion(const ProcessGroup& group, const Words&) {
  auto model = std::make_shared<Layers>();
  model->to(group.device());
  const auto names = model->named_parameters().keys();
  const at::Tensor weight = model->named_parameters()["first.1.weight"];
  const at::Tensor mean = model->named_buffers()["first.1.running_mean"];
  require(convert_sync_batchnorm(*model, group) == 4, "the layers are converted, one of them in two places");
  require(model->named_children()["second"]->named_children()["0"] ==
              model->named_children()["second"]->named_children()["2"],
          "which stays one");
  require(model->named_parameters().keys() == names, "parameters keep their names");
  require(model->named_parameters()["first.1.weight"].is_same(weight), "and stay the optimizer's own");
  torch::manual_seed(group.rank());
  model->forward(torch::randn({3, 1, 4, 4}).to(group.device())).sum().backward();
  require(!torch::equal(mean, torch::zeros_like(mean)), "buffers are the old layer's");
  require(torch::equal(mean, model->named_buffers()["first.1.running_mean"]), "and go on");
  require(torch::allclose(sum_over(group, mean) / group.world_size(), mean), "the statistics are those of all ranks");
  const auto holder = std::make_shared<Holder>();
  const std::string why = error_text([&] { convert_sync_batchnorm(*holder, group); });
  require(why ==
              "cannot convert the layer 'part.norm': it is a member of its module, which would keep using the old one. "
              "Declare it as ddprun::SyncBatchNorm, or put it into a Sequential.",
          "a member cannot be converted: " + why);
}

}  // namespace ddprun::test
