#include "ddprun/optimizers.h"

#include <torch/torch.h>
#include <torch/version.h>

#include "ddprun/amp.h"
#include "ddprun/clip_grad.h"
#include "tests/support/test.h"
#include "tests/trainer/golden.h"
#include "trainer/ddp/snapshot/optimizer_state.h"

namespace {

using Tensors = std::vector<at::Tensor>;
using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGDOptions;

constexpr int kSteps = 7;
const std::vector<std::pair<std::string, StepMode>> kModes{
    {"single", StepMode::per_parameter}, {"foreach", StepMode::foreach}, {"fused", StepMode::fused}};

// Python's own fused SGD leaves bfloat16 as it is before LibTorch 2.15, see sgd_step.cpp.
constexpr bool kOldLibTorch = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15;

// As in numbers_golden.py, and what it says about them.
Tensors weights_to_optimize(StepMode mode, StepMode other, bool beside_python = false) {
  torch::manual_seed(21);
  Tensors weights;
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
           {3}, {17, 5}, {}, {8, 3, 5, 5}, {1001}, {33, 129}, {0, 2}, {9001}, {7, 9}, {6, 1, 3, 3}})
    weights.push_back(torch::randn(shape));
  weights[3] = weights[3].to(at::kFloat, false, false, at::MemoryFormat::ChannelsLast);
  weights[4] = weights[4].to(at::kDouble);
  const bool fused = mode == StepMode::fused || other == StepMode::fused;
  if (mode != StepMode::per_parameter && other != StepMode::per_parameter && !(kOldLibTorch && beside_python && fused))
    weights[5] = weights[5].to(at::kBFloat16);
  for (const at::Tensor& weight : weights) weight.requires_grad_();
  return weights;
}

void give_gradients(const Tensors& weights, int step, bool sometimes) {
  torch::manual_seed(static_cast<std::uint64_t>(1000 + step));
  for (int i = 0; const at::Tensor& weight : weights) {
    at::Tensor gradient = torch::randn(weight.sizes()).to(weight.scalar_type());
    if (weight.dim() == 4) gradient = gradient.to(gradient.scalar_type(), false, false, at::MemoryFormat::ChannelsLast);
    if (i == 8 || (sometimes && (step + i) % 4 == 0)) gradient.reset();
    weight.mutable_grad() = gradient;
    ++i;
  }
}

using Optimizer = std::unique_ptr<torch::optim::Optimizer>;

template <class Made, class Options>
Optimizer made(const Tensors& weights, StepMode mode, const Options& first) {
  Options second = first;
  second.lr(0.02);
  if (first.weight_decay() == 0.1) second.weight_decay(0.3);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(Tensors(weights.begin(), weights.begin() + 6), std::make_unique<Options>(first));
  groups.emplace_back(Tensors(weights.begin() + 6, weights.end()), std::make_unique<Options>(second));
  return std::make_unique<Made>(groups, first, mode);
}

template <class Options>
Options all_of(double decay) {
  return Options(0.05).weight_decay(decay).amsgrad(true).betas({0.8, 0.95}).eps(1e-6);
}

Optimizer make_optimizer(const std::string& name, StepMode mode, const Tensors& weights) {
  const SGDOptions sgd(0.05);
  if (name == "sgd") return made<SGD>(weights, mode, sgd);
  if (name == "sgd decay") return made<SGD>(weights, mode, SGDOptions(sgd).weight_decay(0.1));
  if (name == "sgd momentum") return made<SGD>(weights, mode, SGDOptions(sgd).momentum(0.9).dampening(0.3));
  if (name == "sgd all")
    return made<SGD>(weights, mode, SGDOptions(sgd).momentum(0.9).weight_decay(0.1).nesterov(true));
  if (name == "sgd nesterov") return made<SGD>(weights, mode, SGDOptions(sgd).momentum(0.9).nesterov(true));
  if (name == "adam") return made<Adam>(weights, mode, AdamOptions(0.05));
  if (name == "adam all") return made<Adam>(weights, mode, all_of<AdamOptions>(0.1));
  if (name == "adamw") return made<AdamW>(weights, mode, AdamWOptions(0.05));
  return made<AdamW>(weights, mode, all_of<AdamWOptions>(0.1));
}

const std::vector<std::string> kNames{"sgd",  "sgd decay", "sgd momentum", "sgd all",  "sgd nesterov",
                                      "adam", "adam all",  "adamw",        "adamw all"};

std::vector<std::pair<std::string, StepMode>> modes_of(const std::string& name) {
  auto modes = kModes;
  if (!name.starts_with("sgd")) modes.erase(modes.begin());
  return modes;
}

void run_steps(const std::string& what, torch::optim::Optimizer& optimizer, const Tensors& weights, int begin, int end,
               bool sometimes, std::ostringstream& lines) {
  for (int step = begin; step < end; ++step) {
    give_gradients(weights, step, sometimes);
    optimizer.step();
    lines << what << ' ' << step << ' ' << crc(weights) << '\n';
  }
}

// Adam's of a parameter of `optimizer`.
std::int64_t steps_of(const torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  return static_cast<const torch::optim::AdamParamState&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()))
      .step();
}

}  // namespace

TEST_CASE("each optimizer has Python's weights after each step, bit for bit, in each mode", "[optimizers]") {
  torch::set_num_threads(1);
  std::ostringstream lines;
  for (const std::string& name : kNames)
    for (const auto& [word, mode] : modes_of(name)) {
      const Tensors weights = weights_to_optimize(mode, mode, true);
      const bool momentum = name.starts_with("sgd ") && name != "sgd decay";
      run_steps(name + " " + word, *make_optimizer(name, mode, weights), weights, 0, kSteps,
                mode != StepMode::fused || !momentum, lines);
    }
  CHECK(difference_to_python("optimizers", lines.str()) == "");
}

TEST_CASE("the state that one mode saves goes on in another as in Python", "[optimizers]") {
  torch::set_num_threads(1);
  std::ostringstream lines;
  for (const std::string& name : kNames)
    for (const auto& [word, mode] : modes_of(name))
      for (const auto& [other_word, other] : modes_of(name)) {
        const Tensors weights = weights_to_optimize(mode, other, true);
        const Optimizer first = make_optimizer(name, mode, weights), second = make_optimizer(name, other, weights);
        const std::string what = name + " " + word + " " + other_word;
        run_steps(what, *first, weights, 0, 3, false, lines);
        load_optimizer_state(*second, optimizer_state(*first), "a test");
        run_steps(what, *second, weights, 3, 6, false, lines);
      }
  CHECK(difference_to_python("resumed", lines.str()) == "");
}

TEST_CASE("a fused step takes gradients and states of other layouts, and parameters that get gradients later",
          "[optimizers]") {
  torch::set_num_threads(1);
  const auto trained = [](StepMode mode, const std::string& name, bool transposed) {
    Tensors weights = weights_to_optimize(mode, mode);
    const Optimizer optimizer = make_optimizer(name, mode, weights);
    for (int step = 0; step < kSteps; ++step) {
      give_gradients(weights, step, /*sometimes=*/true);
      if (transposed)
        for (const at::Tensor& weight : weights)
          if (weight.grad().defined() && weight.dim() > 1)
            weight.mutable_grad() = weight.grad().transpose(0, 1).contiguous().transpose(0, 1);
      optimizer->step();
    }
    return weights;
  };
  for (const std::string& name : {"sgd all", "sgd momentum", "adam all", "adamw"}) {
    INFO(name);
    const Tensors fused = trained(StepMode::fused, name, true), other = trained(StepMode::foreach, name, false);
    CHECK(crc(fused) == crc(trained(StepMode::fused, name, false)));
    for (std::size_t i = 0; i < fused.size(); ++i)
      CHECK(
          at::allclose(fused[i].to(at::kDouble), other[i].to(at::kDouble), i == 5 ? 0.05 : 1e-4, i == 5 ? 0.02 : 1e-5));
  }
}

namespace {

// Forty steps, of which those with infinite gradients are left out, and their lines.
void take_scaled_steps(const std::function<Optimizer(const Tensors&)>& make, std::ostringstream& lines) {
  torch::manual_seed(12);
  const at::Tensor weight = torch::randn({5, 3}).requires_grad_(),
                   other = torch::randn({4}, torch::kDouble).requires_grad_();
  const Optimizer optimizer = make({weight, other});
  GradScaler scaler({.init_scale = 1 << 20, .growth_factor = 1.7, .backoff_factor = 0.3, .growth_interval = 4});
  CHECK(scaler.options().growth_interval == 4);
  std::vector<int> skipped;
  for (int step = 0; step < 40; ++step) {
    optimizer->zero_grad();
    const at::Tensor inputs = torch::randn({5, 3});
    if (step == 3 || step == 4 || step == 17 || step == 30)
      inputs[step % 5][1] = std::numeric_limits<float>::infinity();
    if (step == 22) inputs[0][0] = std::numeric_limits<float>::quiet_NaN();
    if (step == 33) inputs[2][2] = 1e36;
    scaler.scale((weight * inputs).sum() + (other * other).sum().to(torch::kFloat)).backward();
    if (step % 3 == 1) {
      scaler.unscale(*optimizer);
      clip_grad_norm({weight, other}, 2);
    }
    const std::string before = crc({weight, other});
    if (!scaler.step(*optimizer)) {
      skipped.push_back(step);
      CHECK(crc({weight, other}) == before);
    }
    scaler.update();
    lines << step << ' ' << number(scaler.state().scale) << ' ' << scaler.state().growth_tracker << ' '
          << crc({weight, other}) << '\n';
  }
  CHECK(skipped == std::vector<int>{3, 4, 17, 22, 30, 33});
}

}  // namespace

TEST_CASE("forty scaled steps have PyTorch's scales and weights, infinite gradients included", "[optimizers][amp]") {
  torch::set_num_threads(1);
  std::ostringstream plain, fused;
  take_scaled_steps(
      [](const Tensors& weights) {
        return std::make_unique<torch::optim::SGD>(weights, SGDOptions(0.1).momentum(0.9));
      },
      plain);
  CHECK(difference_to_python("scaler", plain.str()) == "");
  take_scaled_steps(
      [](const Tensors& weights) {
        return std::make_unique<SGD>(weights, SGDOptions(0.1).momentum(0.9), StepMode::fused);
      },
      fused);
  take_scaled_steps(
      [](const Tensors& weights) {
        return std::make_unique<Adam>(weights, AdamOptions(0.1).amsgrad(true), StepMode::fused);
      },
      fused);
  take_scaled_steps(
      [](const Tensors& weights) { return std::make_unique<AdamW>(weights, AdamWOptions(0.1), StepMode::fused); },
      fused);
  CHECK(difference_to_python("fused_scaler", fused.str()) == "");
}

TEST_CASE("a step that was left out is not counted, and a first one leaves no momentum", "[optimizers][amp]") {
  const at::Tensor one = torch::ones({3}).requires_grad_(), other = torch::ones({2}).requires_grad_();
  const auto step = [&](TakesScale& optimizer, float found_inf, bool both) {
    one.mutable_grad() = torch::full({3}, 8.F);
    other.mutable_grad() = both ? torch::full({2}, 8.F) : at::Tensor();
    optimizer.step_scaled(torch::full({1}, 4.F), torch::full({1}, found_inf));
  };
  Adam adam({one, other}, AdamOptions(0.1), StepMode::fused);
  for (const float found_inf : {0.F, 1.F, 0.F}) step(adam, found_inf, true);
  step(adam, 1, false);
  step(adam, 0, false);
  adam.settle_steps();
  CHECK(steps_of(adam, one) == 3);
  CHECK(steps_of(adam, other) == 2);
  step(adam, 1, true);
  const Dict saved = optimizer_state(adam);
  CHECK(saved.at("state").toGenericDict().at(1).toGenericDict().at("step").toTensor().item<float>() == 2);

  const std::string before = crc({one, other});
  SGD sgd({one, other}, SGDOptions(0.5).momentum(0.9).dampening(0.5), StepMode::fused);
  step(sgd, 1, true);
  CHECK(crc({one, other}) == before);
  CHECK(sgd.state().empty());
  const at::Tensor expected = (one - 0.5F * 2).detach();
  step(sgd, 0, true);
  CHECK(at::equal(one.detach(), expected));
  CHECK(at::equal(one.grad(), torch::full({3}, 2.F)));
}

TEST_CASE("sparse gradients are for SGD, and what a mode cannot take is said", "[optimizers]") {
  const auto sparse_step = [](torch::optim::Optimizer& optimizer, const at::Tensor& weight) {
    weight.mutable_grad() = torch::ones({4, 2}).to_sparse(1);
    optimizer.step();
  };
  const at::Tensor weight = torch::zeros({4, 2}).requires_grad_();
  SGD each({weight}, SGDOptions(0.5).momentum(0.9), StepMode::foreach);
  for (int i = 0; i < 2; ++i) sparse_step(each, weight);
  CHECK(at::allclose(weight.detach(), torch::full({4, 2}, -0.5F - 0.95F)));

  SGD fused({weight}, SGDOptions(0.5), StepMode::fused);
  CHECK_THROWS_WITH(sparse_step(fused, weight),
                    "cannot take a fused step: a gradient is sparse. Leave out the fused mode (train: --fused).");
  Adam adam({weight}, AdamOptions(0.5), StepMode::foreach);
  CHECK_THROWS_WITH(sparse_step(adam, weight), Contains("cannot step with Adam: a gradient is sparse"));

  const at::Tensor part = torch::zeros({4, 4}).slice(1, 0, 2).requires_grad_();
  part.mutable_grad() = torch::ones({4, 2});
  CHECK_THROWS_WITH(SGD({part}, SGDOptions(0.5), StepMode::fused).step(), Contains("is a part of another tensor"));
}

TEST_CASE("a closure gives its loss in each mode", "[optimizers]") {
  for (const auto& [word, mode] : kModes) {
    const at::Tensor weight = torch::full({2}, 3.F).requires_grad_();
    SGD optimizer({weight}, SGDOptions(0.5), mode);
    const at::Tensor loss = optimizer.step([&] {
      const at::Tensor sum = weight.sum();
      sum.backward();
      return sum;
    });
    CHECK(loss.item<float>() == 6);
    CHECK(at::equal(weight.detach(), torch::full({2}, 2.5F)));
  }
}

// Rates that are floats, as those on the device are.
TEST_CASE("with its numbers on the device a fused step has the same bits, and saves the same state", "[optimizers]") {
  torch::set_num_threads(1);
  const auto make = [](const std::string& name, const Tensors& weights) -> Optimizer {
    const std::vector<OptimizerParamGroup> groups{OptimizerParamGroup({weights.begin(), weights.begin() + 3}),
                                                  OptimizerParamGroup({weights.begin() + 3, weights.end()})};
    if (name == "sgd") return std::make_unique<SGD>(groups, SGDOptions(0.5).momentum(0.9), StepMode::fused);
    if (name == "adam") return std::make_unique<Adam>(groups, AdamOptions(0.5).amsgrad(true), StepMode::fused);
    return std::make_unique<AdamW>(groups, AdamWOptions(0.5), StepMode::fused);
  };
  for (const std::string name : {"sgd", "adam", "adamw"}) {
    INFO(name);
    const Tensors on_host = weights_to_optimize(StepMode::fused, StepMode::fused),
                  on_device = weights_to_optimize(StepMode::fused, StepMode::fused);
    const Optimizer host = make(name, on_host), device = make(name, on_device);
    for (int step = 0; step < kSteps; ++step) {
      if (step == 2) dynamic_cast<TakesGraph&>(*device).keep_numbers_on_device();
      for (const auto& [optimizer, weights] : {std::pair(host.get(), on_host), std::pair(device.get(), on_device)}) {
        give_gradients(weights, step, /*sometimes=*/true);
        if (step == 4) optimizer->param_groups()[1].options().set_lr(0.125);
        const at::Tensor found_inf = torch::full({1}, step == 3 ? 1.F : 0.F);
        if (step % 2 == 1)
          dynamic_cast<TakesScale&>(*optimizer).step_scaled(torch::full({1}, 2.F), found_inf);
        else
          optimizer->step();
      }
      CHECK(crc(on_host) == crc(on_device));
    }
    const Dict expected = optimizer_state(*host).at("state").toGenericDict();
    for (const auto& item : optimizer_state(*device).at("state").toGenericDict())
      for (const auto& number : item.value().toGenericDict())
        CHECK(
            at::equal(number.value().toTensor(), expected.at(item.key()).toGenericDict().at(number.key()).toTensor()));
  }
}

TEST_CASE("a step that is taken again reads rates and counts anew, and tells when it makes no more state",
          "[optimizers]") {
  const at::Tensor weight = torch::ones({3}).requires_grad_();
  weight.mutable_grad() = torch::ones({3});
  SGD sgd({weight}, SGDOptions(0.5).momentum(0.9), StepMode::fused);
  Adam adam({weight}, AdamOptions(0.5), StepMode::fused);
  for (TakesGraph* one : std::initializer_list<TakesGraph*>{&sgd, &adam}) {
    one->keep_numbers_on_device();
    CHECK_FALSE(one->has_all_states());
    dynamic_cast<torch::optim::Optimizer*>(one)->step();
    CHECK(one->has_all_states());
  }
  CHECK(SGD({weight}, SGDOptions(0.5), StepMode::fused).has_all_states());  // it has none

  SGD plain({weight}, SGDOptions(0.5), StepMode::foreach);
  CHECK_THROWS_WITH(plain.keep_numbers_on_device(),
                    "cannot keep an optimizer's numbers on the device: its steps are not fused. Make it with "
                    "StepMode::fused (train: --fused).");
}
