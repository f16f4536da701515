#include "trainer/ddp/parallel/optimizer_step.h"

#include <torch/torch.h>

#include <algorithm>

#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

// Strides of dimensions of size 1 do not matter.
bool has_layout_of(const at::Tensor& parameter, const at::Tensor& tensor) {
  constexpr auto kContiguous = at::MemoryFormat::Contiguous, kChannelsLast = at::MemoryFormat::ChannelsLast;
  return tensor.strides() == parameter.strides() ||
         (tensor.is_contiguous(kContiguous) && parameter.is_contiguous(kContiguous)) ||
         (tensor.is_contiguous(kChannelsLast) && parameter.is_contiguous(kChannelsLast));
}

at::Tensor laid_out_as(const at::Tensor& parameter, const at::Tensor& tensor) {
  if (!tensor.defined() || has_layout_of(parameter, tensor)) return tensor;
  return at::empty_like(parameter, tensor.options(), at::MemoryFormat::Preserve).copy_(tensor);
}

Error cannot_fuse(const std::string& why) {
  return Error("cannot take a fused step", why, "Leave out the fused mode (train: --fused).");
}

}  // namespace

at::Tensor on_device(const at::Tensor& number, at::Device device) {
  return number.defined() ? number.to(device, /*non_blocking=*/true) : number;
}

Scaling Scaling::on(at::Device device) const { return {on_device(grad_scale, device), on_device(found_inf, device)}; }

std::vector<StepLists> by_device_and_type(const StepLists& all) {
  std::vector<StepLists> parts;
  for (std::size_t i = 0; i < all.parameters.size(); ++i) {
    const at::Tensor& parameter = all.parameters[i];
    auto part = std::find_if(parts.begin(), parts.end(), [&](const StepLists& one) {
      return one.parameters[0].device() == parameter.device() &&
             one.parameters[0].scalar_type() == parameter.scalar_type();
    });
    if (part == parts.end()) part = parts.insert(part, {{}, {}, std::vector<TensorVector>(all.states.size())});
    part->parameters.push_back(parameter);
    part->gradients.push_back(all.gradients[i]);
    for (std::size_t list = 0; list < all.states.size(); ++list) part->states[list].push_back(all.states[list][i]);
    part->places.push_back(i);
  }
  return parts;
}

bool any_sparse(const TensorVector& gradients) {
  return std::any_of(gradients.begin(), gradients.end(), [](const at::Tensor& one) { return one.is_sparse(); });
}

void require_fusable(const StepLists& lists) {
  if (any_sparse(lists.gradients)) throw cannot_fuse("a gradient is sparse");
  for (const at::Tensor& parameter : lists.parameters) {
    if (!parameter.is_cpu() && !parameter.is_cuda())
      throw cannot_fuse("a parameter is on " + parameter.device().str() + ", and only CPUs and GPUs have it");
    if (!parameter.is_floating_point())
      throw cannot_fuse(std::string("a parameter's type is ") + at::toString(parameter.scalar_type()));
    if (!parameter.is_non_overlapping_and_dense()) throw cannot_fuse("a parameter is a part of another tensor");
  }
}

void lay_out_alike(StepLists& lists) {
  for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
    lists.gradients[i] = laid_out_as(lists.parameters[i], lists.gradients[i]);
    for (TensorVector& state : lists.states)
      if (state[i].defined()) state[i] = laid_out_as(lists.parameters[i], state[i]);
  }
}

void copy_back(const TensorVector& gradients, const TensorVector& given) {
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!gradients[i].is_same(given[i])) given[i].copy_(gradients[i]);
}

}  // namespace ddprun
