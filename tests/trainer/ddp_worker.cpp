#include "tests/trainer/ddp_worker.h"

#include <torch/torch.h>

#include <cstdio>
#include <limits>
#include <map>

#include "ddprun/amp.h"
#include "ddprun/collectives.h"
#include "ddprun/data_loader.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/loss_guard.h"
#include "ddprun/sampler.h"
#include "ddprun/tensor_batch.h"
#include "tests/support/error_text.h"
#include "tests/trainer/collectives_check.h"

namespace ddprun::test {
namespace {

namespace nn = torch::nn;

struct TwoLayers : nn::Module {
  at::Tensor forward(const at::Tensor& input) { return second(torch::relu(first(input))); }
  nn::Linear first = register_module("first", nn::Linear(4, 3));
  nn::Linear second = register_module("second", nn::Linear(3, 2));
};

struct OneUsed : nn::Module {
  at::Tensor forward(const at::Tensor& input) { return used(input); }
  nn::Linear used = register_module("used", nn::Linear(4, 2));
  nn::Linear unused = register_module("unused", nn::Linear(4, 2));
};

struct OtherModel : nn::Module {
  OtherModel(const std::string& how, bool other) {
    const bool named = how == "name" && other;
    register_module(named ? "head" : "first", nn::Linear(4, how == "shape" && other ? 5 : 3));
    const auto last = register_module("last", nn::Linear(3, 2));
    if (how == "layer" && other) register_module("more", nn::Linear(2, 2));
    if (how == "missing" && !other) register_module("more", nn::Linear(2, 2));
    if (how == "type" && other) last->to(torch::kDouble);
    if (how == "frozen" && other) last->bias.set_requires_grad(false);
    if (how == "all-frozen" && other)
      for (const at::Tensor& parameter : parameters()) parameter.set_requires_grad(false);
    if (how == "buffer") register_buffer("count", torch::zeros({other ? 2 : 1}));
  }
  at::Tensor forward(const at::Tensor& input) { return input; }
};

struct Outputs : nn::Module {
  using Many =
      std::tuple<at::Tensor, std::map<std::string, std::vector<at::Tensor>>, std::optional<at::Tensor>, at::Tensor>;
  Many forward(const at::Tensor& input) {
    const at::Tensor output = layer(input);
    return {output, {{"twice", {output * 2, other(input)}}}, std::nullopt, at::Tensor()};
  }
  nn::Linear layer = register_module("layer", nn::Linear(2, 2));
  nn::Linear other = register_module("other", nn::Linear(2, 2));
};

// A module where the group computes.
template <class Module, class... Arguments>
std::shared_ptr<Module> make_on(const ProcessGroup& group, const Arguments&... arguments) {
  auto module = std::make_shared<Module>(arguments...);
  module->to(group.device());
  return module;
}

at::Tensor input_of(const ProcessGroup& group, std::int64_t features) {
  torch::manual_seed(100 + group.rank());
  return torch::randn({3, features}).to(group.device());
}

// The mean over the ranks of what each gives.
at::Tensor mean_over(const ProcessGroup& group, const at::Tensor& own) {
  return sum_over(group, own) / group.world_size();
}

std::vector<at::Tensor> gradients_of(const nn::Module& module) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : module.parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

// Every collective, with every type, against what one process computes.
void check_collectives(const ProcessGroup& group, const Words&) {
  // Ranks that share a GPU take turns on it: each call takes milliseconds.
  const Layouts layouts = group.device().is_cuda() ? Layouts::of_floats : Layouts::all;
  Findings findings;
  reduce_everything(group, findings, nullptr, layouts);
  move_everything(group, findings, layouts);
  require(findings.wrong().empty(), "not as in one process: " + findings.wrong());
}

// A rank's model differs: in a shape, a type, a name, a layer, what is frozen (the word).
void build_another_model(const ProcessGroup& group, const Words& words) {
  auto model = make_on<OtherModel>(group, words.at(0), group.rank() == 1);
  const DistributedDataParallel<OtherModel> ddp(model, {}, group);
}

// A layer that the loss does not depend on, without find_unused_parameters.
void omit_layer(const ProcessGroup& group, const Words&) {
  DistributedDataParallel ddp(make_on<OneUsed>(group), {}, group);
  for (int step = 0; step < 2; ++step) ddp.forward(input_of(group, 4)).sum().backward();
}

// Outputs of all kinds reach backward; gradients can be forgotten and accumulated in every way.
void check_outputs(const ProcessGroup& group, const Words&) {
  DdpOptions options;
  options.find_unused_parameters = true;
  DistributedDataParallel ddp(make_on<Outputs>(group), options, group);
  for (int step = 0; step < 3; ++step) {
    ddp.zero_grad();
    auto [output, lists, nothing, undefined] = ddp(input_of(group, 2));
    output.add_(1);  // it is ours to change
    lists.at("twice")[0].sum().backward();
    const auto gradients = gradients_of(ddp.module());
    require(gradients[0].defined() && gradients[1].defined(), "the layer in the loss has gradients");
    require(!gradients[2].defined() && !gradients[3].defined(), "an output outside the loss gives none");
    const at::Tensor expected = mean_over(group, input_of(group, 2).sum(0) * 2).expand({2, 2});
    require(torch::allclose(gradients[0], expected), "they are the mean over the ranks");
  }
}

void check_gradients(const ProcessGroup& group, const Words&) {
  for (const bool views : {false, true}) {
    DdpOptions options;
    options.gradient_as_bucket_view = views;
    torch::manual_seed(1);
    auto model = make_on<TwoLayers>(group);
    DistributedDataParallel ddp(model, options, group);
    const auto alone = make_on<TwoLayers>(group);
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < 4; ++i) alone->parameters()[i].copy_(model->parameters()[i]);
    }
    for (int step = 0; step < 4; ++step) {
      ddp.zero_grad();
      for (const at::Tensor& parameter : alone->parameters()) parameter.mutable_grad().reset();
      const at::Tensor input = input_of(group, 4) + step;
      {
        const auto pause = ddp.no_sync();
        ddp.forward(input).square().sum().backward();
      }
      alone->forward(input).square().sum().backward();
      const auto own = gradients_of(*alone), paused = gradients_of(*model);
      for (std::size_t i = 0; i < own.size(); ++i)
        require(torch::equal(own[i], paused[i]), "under no_sync a rank has its own gradients");
      ddp.forward(input * 2).square().sum().backward();
      alone->forward(input * 2).square().sum().backward();
      const auto sums = gradients_of(*alone), synced = gradients_of(*model);
      for (std::size_t i = 0; i < own.size(); ++i)
        require(torch::allclose(mean_over(group, sums[i]), synced[i]), "then all have the mean of the sums");
    }
    const torch::NoGradGuard no_grad;
    ddp.forward(input_of(group, 4));  // an evaluation is no collective but for the buffers, of which there are none
  }
}

// With PyTorch's own options, and with those that take fewer kernels.
std::vector<at::Tensor> trained_with(const ProcessGroup& group, const DdpOptions& options) {
  torch::manual_seed(3);
  auto model = make_on<TwoLayers>(group);
  DistributedDataParallel ddp(model, options, group);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.001).momentum(0.9));
  for (int step = 0; step < 5; ++step) {
    ddp.zero_grad();
    if (step % 2 == 0) {
      const auto pause = ddp.no_sync();
      ddp.forward(input_of(group, 4) / 7 + step).square().sum().backward();
    }
    ddp.forward(input_of(group, 4) / 3 - step).square().sum().backward();
    optimizer.step();
  }
  return model->parameters();
}

void check_kernel_options(const ProcessGroup& group, const Words&) {
  const std::vector<at::Tensor> plain = trained_with(group, {});
  for (const DdpOptions& options :
       {DdpOptions{.gradient_as_bucket_view = true}, DdpOptions{.batched_copies = true},
        DdpOptions{.gradient_as_bucket_view = true, .batched_copies = true}, DdpOptions{.reduces_alone = false}}) {
    const std::vector<at::Tensor> other = trained_with(group, options);
    for (std::size_t i = 0; i < plain.size(); ++i)
      require(torch::equal(plain[i], other[i]), "options that save kernels change no bit");
  }
  if (group.world_size() > 1) return;
  auto model = make_on<TwoLayers>(group);
  DistributedDataParallel alone(model, {.reduces_alone = false}, group);
  require(alone.bucket_order().empty(), "a rank that reduces nothing has no buckets");
  require(!error_text([&] { alone.register_comm_hook(fp16_compress_hook()); }).empty(),
          "a hook that is never called is refused");
}

// Every forward pass begins with rank 0's buffers, or with one's own where that is left out.
void check_buffers(const ProcessGroup& group, const Words&) {
  struct Counting : nn::Module {
    explicit Counting(int rank) : count(register_buffer("count", torch::full({1}, 10.0 * rank + 1))) {}
    at::Tensor forward(const at::Tensor& input) {
      const at::Tensor output = layer(input) * 0 + count;
      count += rank + 1;
      return output;
    }
    nn::Linear layer = register_module("layer", nn::Linear(2, 1));
    at::Tensor count;
    int rank = 0;
  };
  for (const bool sent : {true, false}) {
    DdpOptions options;
    options.broadcast_buffers = sent;
    auto model = make_on<Counting>(group, group.rank());
    model->rank = group.rank();
    DistributedDataParallel ddp(model, options, group);
    require(model->count.item<float>() == 1, "all begin with rank 0's buffers");
    for (int step = 0; step < 3; ++step) {
      const at::Tensor seen = ddp.forward(input_of(group, 2));
      const float expected =
          sent ? 1.0F + static_cast<float>(step) : 1.0F + static_cast<float>(step * (group.rank() + 1));
      require(seen[0].item<float>() == expected, "a forward pass sees rank 0's buffers, or its own");
      seen.sum().backward();
    }
    ddp.broadcast_buffers();
    require(model->count.item<float>() == 4, "they are there for an evaluation");
  }
}

void check_scaler(const ProcessGroup& group, const Words&) {
  const auto there = torch::device(group.device());
  const at::Tensor weight = torch::ones({2}, there).requires_grad_(),
                   other = torch::ones({1}, there.dtype(torch::kDouble)).requires_grad_();
  torch::optim::SGD optimizer({weight, other}, torch::optim::SGDOptions(0.5));
  ScalerOptions options;
  options.init_scale = 8;
  options.growth_interval = 2;
  GradScaler scaler(options);
  const auto step = [&](double factor) {
    optimizer.zero_grad();
    scaler.scale((weight * factor).sum() + (other * factor).sum().to(torch::kFloat)).backward();
    const bool taken = scaler.step(optimizer);
    scaler.update();
    return taken;
  };
  const double infinite = std::numeric_limits<double>::infinity();
  require(step(1) && weight[0].item<float>() == 0.5F && other.item<double>() == 0.5, "steps are by unscaled gradients");
  require(scaler.state().scale == 8 && scaler.state().growth_tracker == 1, "a good step is counted");
  require(step(0) && scaler.state().scale == 16 && scaler.state().growth_tracker == 0, "after two the scale grows");
  require(!step(infinite) && weight[0].item<float>() == 0.5F, "an infinite gradient is no step");
  require(scaler.state().scale == 8, "and the scale falls");
  require(step(0), "then it goes on");
  GradScaler resumed(options);
  resumed.load(scaler.state());
  require(resumed.state().growth_tracker == 1, "a state is loaded");
  optimizer.zero_grad();
  resumed.scale((weight * 2).sum()).backward();
  resumed.unscale(optimizer);
  require(weight.grad()[0].item<float>() == 2, "unscaled gradients can be looked at");
  require(resumed.step(optimizer), "before the step");
  resumed.update();
  require(resumed.state().scale == 16, "it goes on where the other one was");
  require(!error_text([&] { resumed.update(); }).empty(), "no update without a step");
  optimizer.zero_grad();
  require(!error_text([&] { resumed.step(optimizer); }).empty(), "no step without gradients");
}

// fp16 autocast with the scaler learns what float does, and all ranks leave out a step that overflows on one.
void check_half_precision(const ProcessGroup& group, const Words&) {
  torch::manual_seed(5);
  const at::Tensor weight = torch::randn({4, 2});
  const auto train = [&](bool half) {
    torch::manual_seed(6);
    auto model = make_on<TwoLayers>(group);
    DistributedDataParallel ddp(model, {}, group);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05));
    GradScaler scaler({.init_scale = 1 << 14, .growth_interval = 8});
    double loss_now = 0;
    int skipped = 0;
    for (int step = 0; step < 60; ++step) {
      torch::manual_seed(1000 + 10 * step + group.rank());
      const at::Tensor input = torch::randn({16, 4});
      const at::Tensor target = torch::matmul(input, weight).to(group.device());
      ddp.zero_grad();
      at::Tensor loss;
      {
        const Autocast autocast(group.device().type(), torch::kHalf, half);
        const at::Tensor output = ddp.forward(input.to(group.device()));
        require(output.scalar_type() == (half ? torch::kHalf : torch::kFloat), "the forward pass is in half precision");
        loss = torch::mse_loss(output.to(torch::kFloat), target);
      }
      // One rank's gradient overflows: all of them leave the step out.
      const bool overflows = half && step == 20 && group.rank() == group.world_size() - 1;
      scaler.scale(overflows ? loss * std::numeric_limits<float>::infinity() : loss).backward();
      if (!scaler.step(optimizer)) ++skipped;
      scaler.update();
      loss_now = loss.item<double>();
    }
    require(model->first->weight.scalar_type() == torch::kFloat, "weights stay float");
    require(half ? skipped >= 1 : skipped == 0, "a step whose gradients overflow on one rank is left out");
    const at::Tensor all = all_gather_stacked(model->first->weight.detach(), group);
    require(torch::equal(all[0], all[group.world_size() - 1]), "the ranks have the same weights");
    return std::pair{loss_now, model->first->weight.detach().clone()};
  };
  const auto [half_loss, half_weights] = train(true);
  const auto [loss, weights] = train(false);
  require(half_loss < 1.5 * loss + 0.05, "it learns as float does");
  require(torch::allclose(half_weights, weights, 0.1, 0.1), "to about the same weights");
}

// A loader's batches, in pinned memory where there is a GPU.
void check_batches(const ProcessGroup& group, const Words&) {
  const at::Tensor images = torch::arange(40 * 6).view({40, 2, 3}).to(torch::kFloat);
  DataLoader<Tensors, Tensors> loader(
      [&](std::int64_t index, SampleRng&) {
        return Tensors{images[index], torch::tensor(index)};
      },
      Collate{.pin_memory = true}, {.batch_size = 7, .threads = 2});
  const DistributedSampler sampler({.dataset_size = 40, .rank = group.rank(), .world_size = group.world_size()});
  auto batches = loader.epoch(sampler);
  std::int64_t seen = 0;
  while (const auto batch = batches.next()) {
    const auto& [image, index] = std::tie((*batch)[0], (*batch)[1]);
    require(image.is_pinned() == group.device().is_cuda(), "batches are pinned where there is a GPU");
    const at::Tensor there = image.to(group.device(), /*non_blocking=*/true);
    require(torch::equal(there.cpu(), images.index_select(0, index)), "and arrive there whole");
    seen += index.size(0);
  }
  require(seen == sampler.size(), "all of them");
}

// One rank's loss is not finite: a step less on all ranks, or the end on all of them (the word: skip, stop).
void train_with_bad_loss(const ProcessGroup& group, const Words& words) {
  const bool stop = words.at(0) == "stop";
  for (const std::string mode : {"plain", "bucket-views", "unused", "static"}) {
    DdpOptions options;
    options.gradient_as_bucket_view = mode == "bucket-views";
    options.find_unused_parameters = mode == "unused";
    options.static_graph = mode == "static";
    auto model = make_on<TwoLayers>(group);
    DistributedDataParallel ddp(model, options, group);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.001).momentum(0.9));
    LossGuard guard({.skips_in_a_row_max = stop ? 0 : 2}, group);
    const auto weights = [&] { return torch::cat({model->first->weight.flatten(), model->second->weight.flatten()}); };
    const auto step = [&](int number, double bad) {
      ddp.zero_grad();
      at::Tensor loss = ddp.forward(input_of(group, 4)).square().sum();
      if (group.rank() == 1) loss = loss * bad;
      loss.backward();
      const at::Tensor before = weights().clone();
      const bool admitted = guard.admits(loss, number);
      if (admitted) optimizer.step();
      require(admitted != torch::equal(before, weights()),
              "weights change in steps that are admitted, and in no others");
      return admitted;
    };
    const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
    require(step(0, 1), "finite losses are admitted");
    if (stop) step(1, nan);
    require(!step(1, nan) && !step(2, infinite) && guard.skipped_in_a_row() == 2, "bad ones are skipped on all ranks");
    require(step(3, 1) && guard.skipped_in_a_row() == 0, "then it goes on");
    require(!step(4, -infinite) && guard.skipped() == 3, "and counts anew");
    require(step(5, 1) && weights().isfinite().all().item<bool>(), "what was skipped left nothing behind");
    const at::Tensor all = all_gather_stacked(weights().detach(), group);
    require(torch::equal(all[0], all[group.world_size() - 1]), "the ranks have the same weights");
    for (int number = 6; number < 8; ++number) step(number, nan);
    const std::string why = error_text([&] { step(8, infinite); });
    require(why.find("training ends at step 8: the loss of rank 1 is infinite, and 2 steps before this one were "
                     "skipped.") == 0,
            "too many in a row end it, not: " + why);
    barrier(group);  // the group is as good as before
  }
}

}  // namespace

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

at::Tensor sum_over(const ProcessGroup& group, const at::Tensor& own) {
  std::vector<at::Tensor> sum{own.clone()};
  group.c10d()->allreduce(sum)->wait();
  return sum[0];
}

}  // namespace ddprun::test

int main(int argc, char** argv) try {
  using namespace ddprun;
  using namespace ddprun::test;
  const std::map<std::string, void (*)(const ProcessGroup&, const Words&)> scenarios{
      {"parity", print_parity},
      {"collectives", check_collectives},
      {"sync-batch-norm", check_sync_batch_norm},
      {"conversion", check_conversion},
      {"other-model", build_another_model},
      {"layer-left-out", omit_layer},
      {"outputs", check_outputs},
      {"gradients", check_gradients},
      {"kernel-options", check_kernel_options},
      {"buffers", check_buffers},
      {"scaler", check_scaler},
      {"half", check_half_precision},
      {"batches", check_batches},
      {"train", train_with_snapshots},
      {"save", save_repeatedly},
      {"outgrow", outgrow_memory},
      {"keep", keep_repeatedly},
      {"bad-loss", train_with_bad_loss},
      {"beats", check_beats},
      {"parity-with-beats", print_parity_with_beats}};
  torch::set_num_threads(1);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // tests wait for lines
  // Over gloo, but for the tests that ask for GPUs.
  const bool on_gpu = std::getenv("DDP_WORKER_ON_GPU") != nullptr;
  const ProcessGroup group = init_process_group({.backend = on_gpu ? Backend::nccl : Backend::gloo});
  scenarios.at(argv[1])(group, Words(argv + 2, argv + argc));
  std::vector<at::Tensor> all_are_done{torch::zeros(1).to(group.device())};
  group.c10d()->allreduce(all_are_done)->wait();
  destroy_process_group();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  std::fflush(nullptr);
  std::_Exit(1);  // the group's threads may wait for peers
}
