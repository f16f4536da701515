#include "trainer/ddp/parallel/adam_step.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

using Counts = std::vector<AdamCount>;

void view_as_real(TensorVector& tensors) {
  for (at::Tensor& tensor : tensors) tensor = at::view_as_real(tensor);
}

void foreach_adam(StepLists part, const Counts& counts, const AdamSettings& o) {
  if (part.parameters[0].is_complex()) {
    view_as_real(part.parameters);
    view_as_real(part.gradients);
    for (TensorVector& state : part.states) view_as_real(state);
  }
  if (o.weight_decay != 0 && o.decoupled) at::_foreach_mul_(part.parameters, 1 - o.lr * o.weight_decay);
  if (o.weight_decay != 0 && !o.decoupled)
    part.gradients = at::_foreach_add(part.gradients, part.parameters, o.weight_decay);

  at::_foreach_lerp_(part.states[kExpAvg], part.gradients, 1 - o.beta1);
  at::_foreach_mul_(part.states[kExpAvgSq], o.beta2);
  at::_foreach_addcmul_(part.states[kExpAvgSq], part.gradients, part.gradients, 1 - o.beta2);

  std::vector<at::Scalar> step_sizes, corrections;
  for (const std::size_t place : part.places) {
    const auto steps = static_cast<double>(counts[place].steps);
    step_sizes.emplace_back(o.lr / (1 - std::pow(o.beta1, steps)) * -1);
    corrections.emplace_back(std::pow(1 - std::pow(o.beta2, steps), 0.5));  // Python's **, not sqrt
  }
  if (o.amsgrad) at::_foreach_maximum_(part.states[kMaxExpAvgSq], part.states[kExpAvgSq]);
  const TensorVector roots = at::_foreach_sqrt(part.states[o.amsgrad ? kMaxExpAvgSq : kExpAvgSq]);
  at::_foreach_div_(roots, corrections);
  at::_foreach_add_(roots, o.eps);
  at::_foreach_addcdiv_(part.parameters, part.states[kExpAvg], roots, step_sizes);
}

// One for all parameters of the same count; the kernels only read them.
TensorVector step_tensors(const StepLists& part, const Counts& counts) {
  TensorVector result;
  std::vector<std::pair<const AdamCount*, at::Tensor>> made;
  for (const std::size_t place : part.places) {
    const AdamCount& count = counts[place];
    if (count.on_device.defined()) {
      result.push_back(count.on_device);
      continue;
    }
    auto found = std::find_if(made.begin(), made.end(), [&](const auto& one) {
      return one.first->steps == count.steps && one.first->left_out.is_same(count.left_out);
    });
    if (found == made.end()) {
      at::Tensor number = at::full({}, count.steps, part.parameters[0].options().dtype(at::kFloat));
      if (count.left_out.defined()) number -= count.left_out;
      found = made.insert(found, {&count, number});
    }
    result.push_back(found->second);
  }
  return result;
}

void fused_adam(StepLists& part, const Counts& counts, const AdamSettings& o, const Scaling& scaling) {
  const TensorVector given = part.gradients;
  lay_out_alike(part);
  const auto step = [&](const auto& kernel, const auto& lr) {
    kernel(part.parameters, part.gradients, part.states[kExpAvg], part.states[kExpAvgSq],
           o.amsgrad ? part.states[kMaxExpAvgSq] : TensorVector(), step_tensors(part, counts), lr, o.beta1, o.beta2,
           o.weight_decay, o.eps, o.amsgrad, /*maximize=*/false,
           scaling.grad_scale.defined() ? std::optional(scaling.grad_scale) : std::nullopt,
           scaling.found_inf.defined() ? std::optional(scaling.found_inf) : std::nullopt);
  };
  namespace ops = at::_ops;
  if (const at::Tensor rate = on_device(o.rate, part.parameters[0].device()); rate.defined())
    step(o.decoupled ? ops::_fused_adamw__tensor_lr::call : ops::_fused_adam__tensor_lr::call, rate);
  else
    step(o.decoupled ? ops::_fused_adamw_::call : ops::_fused_adam_::call, o.lr);
  if (scaling.grad_scale.defined()) copy_back(part.gradients, given);
}

}  // namespace

void step_adam(StepLists& lists, const Counts& counts, const AdamSettings& settings, bool fused,
               const Scaling& scaling) {
  if (any_sparse(lists.gradients))
    throw Error("cannot step with Adam", "a gradient is sparse", "Use SGD, or layers without sparse gradients.");
  if (fused) require_fusable(lists);
  for (StepLists& part : by_device_and_type(lists)) {
    if (!fused) {
      foreach_adam(part, counts, settings);
      continue;
    }
    fused_adam(part, counts, settings, scaling.on(part.parameters[0].device()));
    for (std::size_t list = 0; list < part.states.size(); ++list)
      for (std::size_t i = 0; i < part.places.size(); ++i) lists.states[list][part.places[i]] = part.states[list][i];
  }
}

}  // namespace ddprun
