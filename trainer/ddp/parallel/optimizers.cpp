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

// What a step of a group of parameters takes besides them.
struct GroupStep {
  bool fused = false;
  Scaling scaling = {};
  at::Tensor rate = {};  // on the device; undefined: numbers are on the host
  LeftOutSteps& left_out;
  CountsOnDevice& counts;
};

void step_group(torch::optim::Optimizer& optimizer, const OptimizerParamGroup& group,
                const torch::optim::SGDOptions& options, const GroupStep& how) {
  using State = torch::optim::SGDParamState;
  StepLists lists = lists_of(group, 1);
  const auto& states = optimizer.state();
  for (const at::Tensor& parameter : lists.parameters) {
    const auto found = states.find(parameter.unsafeGetTensorImpl());
    lists.states[0].push_back(found == states.end() ? at::Tensor()
                                                    : static_cast<const State&>(*found->second).momentum_buffer());
  }
  step_sgd(lists, options, how.fused, how.scaling, how.rate);
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

// The tensors of these states' counts, one more now. New ones begin with the count on the host.
template <class State>
TensorVector counted(const std::vector<const OptimizerParamState*>& states, const TensorVector& parameters,
                     CountsOnDevice& counts) {
  TensorVector result;
  for (std::size_t i = 0; i < states.size(); ++i) {
    at::Tensor& count = counts[states[i]];
    if (!count.defined())
      count = at::full({}, static_cast<const State&>(*states[i]).step(), parameters[i].options().dtype(at::kFloat));
    result.push_back(count);
  }
  if (!result.empty()) at::_foreach_add_(result, 1);
  return result;
}

void uncount(const TensorVector& counts, const TensorVector& parameters, const Scaling& scaling) {
  for (const StepLists& part : by_device_and_type({parameters, parameters, {counts}}))
    at::_foreach_add_(part.states[0], scaling.on(part.parameters[0].device()).found_inf, -1);
}

template <class Options, class State, bool decoupled>
void step_adam_group(torch::optim::Optimizer& optimizer, const OptimizerParamGroup& group, const Options& options,
                     const GroupStep& how) {
  const bool amsgrad = options.amsgrad(), on_device = how.rate.defined();
  StepLists lists = lists_of(group, amsgrad ? 3 : 2);
  std::vector<AdamCount> counts;
  std::vector<const OptimizerParamState*> states;
  for (const at::Tensor& parameter : lists.parameters) {
    State& state = state_of<State>(optimizer, parameter);
    add_states(parameter, state, amsgrad, lists);
    const auto known = how.left_out.find(&state);
    counts.push_back({state.step() + 1, known == how.left_out.end() ? at::Tensor() : known->second});
    states.push_back(&state);
  }
  TensorVector numbers;
  if (on_device) numbers = counted<State>(states, lists.parameters, how.counts);
  for (std::size_t i = 0; i < numbers.size(); ++i) counts[i].on_device = numbers[i];
  const auto [beta1, beta2] = options.betas();
  const AdamSettings settings{options.lr(),           beta1,   beta2,     options.eps(),
                              options.weight_decay(), amsgrad, decoupled, how.rate};
  step_adam(lists, counts, settings, how.fused, how.scaling);
  for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
    State& state = state_of<State>(optimizer, lists.parameters[i]);
    if (!on_device) state.step(counts[i].steps);
    take_back(lists, i, amsgrad, state);
  }
  if (!how.scaling.found_inf.defined()) return;
  if (on_device)
    uncount(numbers, lists.parameters, how.scaling);
  else
    leave_out(how.left_out, states, lists.parameters, how.scaling.found_inf);
}

void step_group(torch::optim::Optimizer& optimizer, const OptimizerParamGroup& group,
                const torch::optim::AdamOptions& options, const GroupStep& how) {
  step_adam_group<torch::optim::AdamOptions, torch::optim::AdamParamState, false>(optimizer, group, options, how);
}

void step_group(torch::optim::Optimizer& optimizer, const OptimizerParamGroup& group,
                const torch::optim::AdamWOptions& options, const GroupStep& how) {
  step_adam_group<torch::optim::AdamWOptions, torch::optim::AdamWParamState, true>(optimizer, group, options, how);
}

// Without momentum SGD has no states; Adam's have a count.
bool is_whole(const OptimizerParamState* state, const torch::optim::SGDOptions& options, const CountsOnDevice&) {
  return options.momentum() == 0 ||
         (state && static_cast<const torch::optim::SGDParamState&>(*state).momentum_buffer().defined());
}
template <class Options>
bool is_whole(const OptimizerParamState* state, const Options&, const CountsOnDevice& counts) {
  return counts.contains(state);
}

// Only Adam's states count.
template <class Options, class Correct>
void correct_count(OptimizerParamState&, const Options*, const Correct&) {}
template <class Correct>
void correct_count(OptimizerParamState& base, const torch::optim::AdamOptions*, const Correct& correct) {
  auto& state = static_cast<torch::optim::AdamParamState&>(base);
  state.step(correct(state.step()));
}
template <class Correct>
void correct_count(OptimizerParamState& base, const torch::optim::AdamWOptions*, const Correct& correct) {
  auto& state = static_cast<torch::optim::AdamWParamState&>(base);
  state.step(correct(state.step()));
}

// By state; waits once for each device.
std::map<const OptimizerParamState*, std::int64_t> read_counts(const CountsOnDevice& counts) {
  std::map<const OptimizerParamState*, std::int64_t> result;
  std::vector<const OptimizerParamState*> states;
  TensorVector numbers;
  for (const auto& [state, number] : counts) {
    states.push_back(state);
    numbers.push_back(number);
  }
  for (const StepLists& part : by_device_and_type({numbers, numbers, {}})) {
    const at::Tensor read = at::stack(part.parameters).to(at::kLong).cpu();
    for (std::size_t i = 0; i < part.places.size(); ++i)
      result[states[part.places[i]]] = read.const_data_ptr<std::int64_t>()[i];
  }
  return result;
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
  step_groups({});
  return loss;
}

template <class Base, class Options>
void Optimizer<Base, Options>::step_scaled(const at::Tensor& grad_scale, const at::Tensor& found_inf) {
  check(takes_scale(), "only a fused step takes a gradient scale");
  // Ours, as it is kept.
  const at::Tensor found = found_inf.detach().to(torch::kFloat, /*non_blocking=*/false, /*copy=*/true).squeeze();
  step_groups({grad_scale, found});
}

template <class Base, class Options>
void Optimizer<Base, Options>::step_groups(const Scaling& scaling) {
  const torch::NoGradGuard no_grad;
  send_rates();
  for (std::size_t i = 0; i < this->param_groups().size(); ++i) {
    const OptimizerParamGroup& group = this->param_groups()[i];
    step_group(
        *this, group, static_cast<const Options&>(group.options()),
        {mode_ == StepMode::fused, scaling, rates_.empty() ? at::Tensor() : rates_[i].number, left_out_, counts_});
  }
}

template <class Base, class Options>
void Optimizer<Base, Options>::keep_numbers_on_device() {
  if (mode_ != StepMode::fused)
    throw Error("cannot keep an optimizer's numbers on the device", "its steps are not fused",
                "Make it with StepMode::fused (train: --fused).");
  settle_steps();
  counts_.clear();
  rates_.clear();
  for (const OptimizerParamGroup& group : this->param_groups()) {
    const double rate = static_cast<const Options&>(group.options()).lr();
    const at::Device device = group.params().empty() ? at::Device(at::kCPU) : group.params()[0].device();
    rates_.push_back({rate, at::full({}, rate, at::device(device).dtype(at::kFloat))});
  }
}

template <class Base, class Options>
void Optimizer<Base, Options>::send_rates() {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const double rate = static_cast<const Options&>(this->param_groups()[i].options()).lr();
    if (std::exchange(rates_[i].sent, rate) != rate) rates_[i].number.fill_(rate);
  }
}

template <class Base, class Options>
bool Optimizer<Base, Options>::has_all_states() const {
  for (const OptimizerParamGroup& group : this->param_groups())
    for (const at::Tensor& parameter : group.params()) {
      const auto found = this->state().find(parameter.unsafeGetTensorImpl());
      const OptimizerParamState* state = found == this->state().end() ? nullptr : found->second.get();
      if (parameter.requires_grad() && !is_whole(state, static_cast<const Options&>(group.options()), counts_))
        return false;
    }
  return true;
}

template <class Base, class Options>
void Optimizer<Base, Options>::settle_steps() const {
  const auto correct = [](OptimizerParamState& state, const auto& count) {
    correct_count(state, static_cast<const Options*>(nullptr), count);
  };
  std::map<const void*, std::int64_t> read;
  for (const auto& [parameter, state] : this->state()) {
    const auto found = left_out_.find(state.get());
    if (found == left_out_.end()) continue;
    const auto [known, is_new] = read.try_emplace(found->second.unsafeGetTensorImpl());
    if (is_new) known->second = static_cast<std::int64_t>(found->second.template item<float>());
    correct(*state, [&, &left_out = known->second](std::int64_t steps) { return steps - left_out; });
  }
  left_out_.clear();
  const auto counts = read_counts(counts_);
  for (const auto& [parameter, state] : this->state())
    if (const auto found = counts.find(state.get()); found != counts.end())
      correct(*state, [&](std::int64_t) { return found->second; });
}

template <class Base, class Options>
void Optimizer<Base, Options>::save(torch::serialize::OutputArchive& archive) const {
  settle_steps();
  Base::save(archive);
}

template <class Base, class Options>
void Optimizer<Base, Options>::load(torch::serialize::InputArchive& archive) {
  left_out_.clear();
  counts_.clear();
  Base::load(archive);
  if (!rates_.empty()) keep_numbers_on_device();
}

template class Optimizer<torch::optim::SGD, torch::optim::SGDOptions>;
template class Optimizer<torch::optim::Adam, torch::optim::AdamOptions>;
template class Optimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

}  // namespace ddprun::detail
