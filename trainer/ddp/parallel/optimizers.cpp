#include "ddprun/optimizers.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "rendezvous/base/error.h"
#include "trainer/ddp/parallel/adam_step.h"
#include "trainer/ddp/parallel/sgd_step.h"

namespace ddprun::detail {
namespace {

using torch::optim::OptimizerParamGroup;
using torch::optim::OptimizerParamState;

bool all_on_gpus(const std::vector<OptimizerParamGroup>& groups) {
  return std::all_of(groups.begin(), groups.end(), [](const OptimizerParamGroup& group) {
    return std::all_of(group.params().begin(), group.params().end(),
                       [](const at::Tensor& one) { return one.is_cuda(); });
  });
}

// Of the parameters that have a gradient. The lists of states are empty.
StepLists lists_of(const OptimizerParamGroup& group, std::size_t states) {
  StepLists lists{{}, {}, std::vector<TensorVector>(states)};
  for (const at::Tensor& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    lists.parameters.push_back(parameter);
    lists.gradients.push_back(parameter.grad());
  }
  return lists;
}

template <class State>
State& state_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  std::unique_ptr<OptimizerParamState>& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

void step_group(torch::optim::Optimizer& optimizer, const OptimizerParamGroup& group,
                const torch::optim::SGDOptions& options, bool fused, const Scaling& scaling, LeftOutSteps&) {
  using State = torch::optim::SGDParamState;
  StepLists lists = lists_of(group, 1);
  const auto& states = optimizer.state();
  for (const at::Tensor& parameter : lists.parameters) {
    const auto found = states.find(parameter.unsafeGetTensorImpl());
    lists.states[0].push_back(found == states.end() ? at::Tensor()
                                                    : static_cast<const State&>(*found->second).momentum_buffer());
  }
  step_sgd(lists, options, fused, scaling);
  if (options.momentum() == 0) return;
  for (std::size_t i = 0; i < lists.parameters.size(); ++i)
    if (lists.states[0][i].defined())
      state_of<State>(optimizer, lists.parameters[i]).momentum_buffer(lists.states[0][i]);
}

template <class State>
void add_states(const at::Tensor& parameter, State& state, bool amsgrad, StepLists& lists) {
  const auto zeros = [&] { return torch::zeros_like(parameter.detach(), at::MemoryFormat::Preserve); };
  if (!state.exp_avg().defined()) state.exp_avg(zeros());
  if (!state.exp_avg_sq().defined()) state.exp_avg_sq(zeros());
  if (amsgrad && !state.max_exp_avg_sq().defined()) state.max_exp_avg_sq(zeros());
  lists.states[kExpAvg].push_back(state.exp_avg());
  lists.states[kExpAvgSq].push_back(state.exp_avg_sq());
  if (amsgrad) lists.states[kMaxExpAvgSq].push_back(state.max_exp_avg_sq());
}

template <class State>
void take_back(const StepLists& lists, std::size_t place, bool amsgrad, State& state) {
  state.exp_avg(lists.states[kExpAvg][place]);
  state.exp_avg_sq(lists.states[kExpAvgSq][place]);
  if (amsgrad) state.max_exp_avg_sq(lists.states[kMaxExpAvgSq][place]);
}

// States of the same history go on sharing their number.
void leave_out(LeftOutSteps& left_out, const std::vector<const OptimizerParamState*>& states,
               const TensorVector& parameters, const at::Tensor& found_inf) {
  struct Sum {
    at::Tensor before, after;
  };
  std::vector<Sum> sums;
  for (std::size_t i = 0; i < states.size(); ++i) {
    at::Tensor& number = left_out[states[i]];
    auto sum = std::find_if(sums.begin(), sums.end(), [&](const Sum& one) {
      return one.before.is_same(number) && one.after.device() == parameters[i].device();
    });
    if (sum == sums.end()) {
      const at::Tensor found = found_inf.to(parameters[i].device(), /*non_blocking=*/true);
      sum = sums.insert(sum, {number, number.defined() ? number + found : found});
    }
    number = sum->after;
  }
}

template <class Options, class State, bool decoupled>
void step_adam_group(torch::optim::Optimizer& optimizer, const OptimizerParamGroup& group, const Options& options,
                     bool fused, const Scaling& scaling, LeftOutSteps& left_out) {
  const bool amsgrad = options.amsgrad();
  StepLists lists = lists_of(group, amsgrad ? 3 : 2);
  std::vector<AdamCount> counts;
  std::vector<const OptimizerParamState*> states;
  for (const at::Tensor& parameter : lists.parameters) {
    State& state = state_of<State>(optimizer, parameter);
    add_states(parameter, state, amsgrad, lists);
    const auto known = left_out.find(&state);
    counts.push_back({state.step() + 1, known == left_out.end() ? at::Tensor() : known->second});
    states.push_back(&state);
  }
  const auto [beta1, beta2] = options.betas();
  const AdamSettings settings{options.lr(), beta1, beta2, options.eps(), options.weight_decay(), amsgrad, decoupled};
  step_adam(lists, counts, settings, fused, scaling);
  for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
    State& state = state_of<State>(optimizer, lists.parameters[i]);
    state.step(counts[i].steps);
    take_back(lists, i, amsgrad, state);
  }
  if (scaling.found_inf.defined()) leave_out(left_out, states, lists.parameters, scaling.found_inf);
}

void step_group(torch::optim::Optimizer& optimizer, const OptimizerParamGroup& group,
                const torch::optim::AdamOptions& options, bool fused, const Scaling& scaling, LeftOutSteps& left_out) {
  step_adam_group<torch::optim::AdamOptions, torch::optim::AdamParamState, false>(optimizer, group, options, fused,
                                                                                  scaling, left_out);
}

void step_group(torch::optim::Optimizer& optimizer, const OptimizerParamGroup& group,
                const torch::optim::AdamWOptions& options, bool fused, const Scaling& scaling, LeftOutSteps& left_out) {
  step_adam_group<torch::optim::AdamWOptions, torch::optim::AdamWParamState, true>(optimizer, group, options, fused,
                                                                                   scaling, left_out);
}

template <class Options>
void step_groups(torch::optim::Optimizer& optimizer, bool fused, const Scaling& scaling, LeftOutSteps& left_out) {
  const torch::NoGradGuard no_grad;
  for (const OptimizerParamGroup& group : optimizer.param_groups())
    step_group(optimizer, group, static_cast<const Options&>(group.options()), fused, scaling, left_out);
}

// Only Adam's states count.
void subtract(std::int64_t, OptimizerParamState&, const torch::optim::SGDOptions*) {}
void subtract(std::int64_t steps, OptimizerParamState& base, const torch::optim::AdamOptions*) {
  auto& state = static_cast<torch::optim::AdamParamState&>(base);
  state.step(state.step() - steps);
}
void subtract(std::int64_t steps, OptimizerParamState& base, const torch::optim::AdamWOptions*) {
  auto& state = static_cast<torch::optim::AdamWParamState&>(base);
  state.step(state.step() - steps);
}

}  // namespace

template <class Base, class Options>
at::Tensor Optimizer<Base, Options>::step(torch::optim::Optimizer::LossClosure closure) {
  if (mode_ == StepMode::per_parameter || (mode_ == StepMode::automatic && !all_on_gpus(this->param_groups())))
    return Base::step(std::move(closure));
  at::Tensor loss;
  if (closure) {
    const torch::AutoGradMode enable_grad(true);
    loss = closure();
  }
  step_groups<Options>(*this, mode_ == StepMode::fused, {}, left_out_);
  return loss;
}

template <class Base, class Options>
void Optimizer<Base, Options>::step_scaled(const at::Tensor& grad_scale, const at::Tensor& found_inf) {
  check(takes_scale(), "only a fused step takes a gradient scale");
  // Ours, as it is kept.
  const at::Tensor found = found_inf.detach().to(torch::kFloat, /*non_blocking=*/false, /*copy=*/true).squeeze();
  step_groups<Options>(*this, /*fused=*/true, {grad_scale, found}, left_out_);
}

template <class Base, class Options>
void Optimizer<Base, Options>::settle_steps() const {
  std::map<const void*, std::int64_t> read;
  for (const auto& [parameter, state] : this->state()) {
    const auto found = left_out_.find(state.get());
    if (found == left_out_.end()) continue;
    const auto [known, is_new] = read.try_emplace(found->second.unsafeGetTensorImpl());
    if (is_new) known->second = static_cast<std::int64_t>(found->second.template item<float>());
    subtract(known->second, *state, static_cast<const Options*>(nullptr));
  }
  left_out_.clear();
}

template <class Base, class Options>
void Optimizer<Base, Options>::save(torch::serialize::OutputArchive& archive) const {
  settle_steps();
  Base::save(archive);
}

template <class Base, class Options>
void Optimizer<Base, Options>::load(torch::serialize::InputArchive& archive) {
  left_out_.clear();
  Base::load(archive);
}

template class Optimizer<torch::optim::SGD, torch::optim::SGDOptions>;
template class Optimizer<torch::optim::Adam, torch::optim::AdamOptions>;
template class Optimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

}  // namespace ddprun::detail
