#include "ddprun/clip_grad.h"

#include <ATen/native/ForeachUtils.h>
#include <torch/torch.h>

#include <cmath>
#include <sstream>

#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  return gradients;
}

// By device and type, in the order of Python's function of the same name: the norm of norms depends on it.
std::vector<std::vector<at::Tensor>> groups_of(const std::vector<at::Tensor>& gradients) {
  std::vector<std::vector<at::Tensor>> groups;
  if (gradients.empty()) return groups;
  const at::native::nested_optional_tensorvec_t lists{{gradients.begin(), gradients.end()}};
  for (const auto& [kind, tensors] :
       at::native::_group_tensors_by_first_tensors_device_and_dtype(lists, /*with_indices=*/false)) {
    groups.emplace_back();
    for (const auto& tensor : tensors.first[0]) groups.back().push_back(*tensor);
  }
  return groups;
}

at::Tensor total_norm(std::vector<at::Tensor> gradients, double norm_type) {
  // An empty tensor has no maximum; Python throws.
  if (std::isinf(norm_type)) std::erase_if(gradients, [](const at::Tensor& gradient) { return gradient.numel() == 0; });
  if (gradients.empty()) return torch::tensor(0.0F);
  std::vector<at::Tensor> norms;
  for (const auto& group : groups_of(gradients))
    for (const at::Tensor& norm : at::_foreach_norm(group, norm_type)) norms.push_back(norm.to(gradients[0].device()));
  return at::linalg_vector_norm(at::stack(norms), norm_type);
}

}  // namespace

at::Tensor clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type,
                          bool error_if_nonfinite) {
  const torch::NoGradGuard no_grad;
  const auto gradients = gradients_of(parameters);
  const at::Tensor norm = total_norm(gradients, norm_type);
  if (error_if_nonfinite && !std::isfinite(norm.item<double>())) {
    std::ostringstream why;
    why << "their norm of order " << norm_type << " is " << norm.item<double>();
    throw Error("cannot clip the gradients", why.str(),
                "Lower the learning rate, or leave such a step out: see loss_guard.h and amp.h.");
  }
  const at::Tensor factor = at::clamp_max((norm + 1e-6).reciprocal() * max_norm, 1.0);
  for (const auto& group : groups_of(gradients)) at::_foreach_mul_(group, factor.to(group[0].device()));
  return norm;
}

void clip_grad_value(const std::vector<at::Tensor>& parameters, double clip_value) {
  const torch::NoGradGuard no_grad;
  for (const auto& group : groups_of(gradients_of(parameters))) {
    at::_foreach_clamp_min_(group, -clip_value);
    at::_foreach_clamp_max_(group, clip_value);
  }
}

}  // namespace ddprun
