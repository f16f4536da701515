#include "trainer/ddp/parallel/sgd_step.h"

#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>

namespace ddprun {
namespace {

using torch::optim::SGDOptions;

bool any_undefined(const TensorVector& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& one) { return !one.defined(); });
}

void update_buffers(TensorVector& buffers, const TensorVector& gradients, const SGDOptions& o) {
  if (!any_undefined(buffers)) {
    at::_foreach_mul_(buffers, o.momentum());
    at::_foreach_add_(buffers, gradients, 1 - o.dampening());
    return;
  }
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].defined())
      buffers[i].mul_(o.momentum()).add_(gradients[i], 1 - o.dampening());
    else
      buffers[i] = gradients[i].detach().clone();
}

void foreach_sgd(StepLists& part, const SGDOptions& o) {
  TensorVector& buffers = part.states[0];
  TensorVector steps =
      o.weight_decay() == 0 ? part.gradients : at::_foreach_add(part.gradients, part.parameters, o.weight_decay());
  if (o.momentum() != 0) {
    update_buffers(buffers, steps, o);
    steps = o.nesterov() ? at::_foreach_add(steps, buffers, o.momentum()) : buffers;
  }
  if (!any_sparse(part.gradients)) {
    at::_foreach_add_(part.parameters, steps, -o.lr());
    return;
  }
  for (std::size_t i = 0; i < steps.size(); ++i) part.parameters[i].add_(steps[i], -o.lr());
}

void fused_sgd(StepLists& part, const SGDOptions& o, bool first, const Scaling& scaling, const at::Tensor& rate) {
  TensorVector& buffers = part.states[0];
  if (first)
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i] = at::empty_like(part.parameters[i]);
  const TensorVector given = part.gradients;
  lay_out_alike(part);
  const auto step = [&](const auto& lr) {
    at::_fused_sgd_(part.parameters, part.gradients, o.momentum() == 0 ? TensorVector() : buffers, o.weight_decay(),
                    o.momentum(), lr, o.dampening(), o.nesterov(), /*maximize=*/false, first,
                    scaling.grad_scale.defined() ? std::optional(scaling.grad_scale) : std::nullopt,
                    scaling.found_inf.defined() ? std::optional(scaling.found_inf) : std::nullopt);
  };
  rate.defined() ? step(rate) : step(o.lr());
  if (scaling.grad_scale.defined()) copy_back(part.gradients, given);
}

// On the CPU 2.11's kernel leaves weights of bfloat16 and float16 as they are where there is momentum; 2.15's does not.
bool kernel_is_wrong(const StepLists& part, const SGDOptions& o) {
  constexpr bool kOld = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15;
  const at::Tensor& one = part.parameters[0];
  return kOld && o.momentum() != 0 && one.is_cpu() && at::isReducedFloatingType(one.scalar_type());
}

// What the kernel does, in its stead.
void unfused_sgd(StepLists& part, SGDOptions o, const Scaling& scaling, const at::Tensor& rate) {
  if (scaling.found_inf.defined() && scaling.found_inf.item<float>() != 0) return;
  const TensorVector given = part.gradients;
  lay_out_alike(part);
  if (scaling.grad_scale.defined()) {
    at::_foreach_div_(part.gradients, scaling.grad_scale.item<double>());
    copy_back(part.gradients, given);
  }
  if (rate.defined()) o.lr(rate.item<double>());
  foreach_sgd(part, o);
}

// A kernel either fills all buffers or updates all of them.
std::pair<StepLists, StepLists> first_and_later(const StepLists& lists) {
  std::pair<StepLists, StepLists> result{{{}, {}, {{}}}, {{}, {}, {{}}}};
  for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
    StepLists& to = lists.states[0][i].defined() ? result.second : result.first;
    to.parameters.push_back(lists.parameters[i]);
    to.gradients.push_back(lists.gradients[i]);
    to.states[0].push_back(lists.states[0][i]);
    to.places.push_back(i);
  }
  return result;
}

template <class Step>
void step_parts(StepLists& lists, const Step& step) {
  for (StepLists& part : by_device_and_type(lists)) {
    step(part);
    for (std::size_t i = 0; i < part.places.size(); ++i) lists.states[0][part.places[i]] = part.states[0][i];
  }
}

}  // namespace

void step_sgd(StepLists& lists, const SGDOptions& options, bool fused, const Scaling& scaling, const at::Tensor& rate) {
  if (!fused) return step_parts(lists, [&](StepLists& part) { foreach_sgd(part, options); });
  require_fusable(lists);
  const auto step = [&](StepLists& some, bool first) {
    step_parts(some, [&](StepLists& part) {
      const at::Device device = part.parameters[0].device();
      if (kernel_is_wrong(part, options))
        return unfused_sgd(part, options, scaling.on(device), on_device(rate, device));
      fused_sgd(part, options, first, scaling.on(device), on_device(rate, device));
    });
  };
  if (options.momentum() == 0) return step(lists, false);
  auto [first, later] = first_and_later(lists);
  // The kernel would leave new buffers unfilled. This waits for the GPU, before a parameter's first step only.
  if (!first.parameters.empty() && scaling.found_inf.defined() && scaling.found_inf.item<float>() != 0) return;
  step(first, true);
  step(later, false);
  for (const StepLists* some : {&first, &later})
    for (std::size_t i = 0; i < some->places.size(); ++i) lists.states[0][some->places[i]] = some->states[0][i];
}

}  // namespace ddprun
