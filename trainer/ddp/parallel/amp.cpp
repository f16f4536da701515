#include "ddprun/amp.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "ddprun/optimizers.h"
#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

// 1 if one of them is, else 0; on the first one's device.
at::Tensor any_of(const std::vector<at::Tensor>& found_inf) {
  at::Tensor any = found_inf[0];
  for (std::size_t i = 1; i < found_inf.size(); ++i)
    any = at::maximum(any, found_inf[i].to(any.device(), /*non_blocking=*/true));
  return any;
}

}  // namespace

Autocast::Autocast(at::DeviceType device, at::ScalarType type, bool enabled)
    : device_(device),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      was_type_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_dtype(device, type);
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();  // cached casts of weights, which change now
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, was_type_);
}

void GradScaler::move_to(at::Device device) {
  if (scale_.defined()) return;
  scale_ = torch::full({1}, loaded_.scale, torch::device(device).dtype(torch::kFloat));
  growth_tracker_ = torch::full({1}, loaded_.growth_tracker, torch::device(device).dtype(torch::kInt));
}

at::Tensor GradScaler::scale(const at::Tensor& loss) {
  move_to(loss.device());
  return loss * scale_.squeeze();
}

// torch/amp/grad_scaler.py, _unscale_grads_
GradScaler::Unscaled& GradScaler::multiply_gradients(torch::optim::Optimizer& optimizer, const at::Tensor& factor) {
  const torch::NoGradGuard no_grad;
  std::map<std::pair<std::string, at::ScalarType>, std::vector<at::Tensor>> gradients;  // one kernel takes one kind
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& parameter : group.params()) {
      at::Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (gradient.scalar_type() == at::kHalf)
        throw Error("GradScaler::unscale()", "the gradients are fp16", "Keep the weights float: autocast casts them.");
      if (gradient.is_sparse()) gradient = gradient._values();
      gradients[{gradient.device().str(), gradient.scalar_type()}].push_back(gradient);
    }
  Unscaled& unscaled = unscaled_[&optimizer];
  for (auto& [kind, tensors] : gradients) {
    at::Tensor found = torch::zeros({1}, scale_.options().device(tensors[0].device()));
    at::_amp_foreach_non_finite_check_and_unscale_(tensors, found, factor.to(found.device()));
    unscaled.found_inf.push_back(found);
  }
  return unscaled;
}

void GradScaler::unscale(torch::optim::Optimizer& optimizer) {
  if (unscaled_.contains(&optimizer))
    throw Error("GradScaler::unscale()", "it was called for this optimizer already since the last update()",
                "Call it once a step, before step().");
  if (!scale_.defined())
    throw Error("GradScaler::unscale()", "no loss has been scaled yet", "Call scale(loss).backward() first.");
  multiply_gradients(optimizer, scale_.to(torch::kDouble).reciprocal().to(torch::kFloat));
}

StepTaken GradScaler::step(torch::optim::Optimizer& optimizer) {
  auto* fused = dynamic_cast<TakesScale*>(&optimizer);
  if (fused && !fused->takes_scale()) fused = nullptr;
  const bool divides = fused && scale_.defined() && !unscaled_.contains(&optimizer);
  if (divides)
    multiply_gradients(optimizer, torch::ones_like(scale_));
  else if (!unscaled_.contains(&optimizer))
    unscale(optimizer);
  Unscaled& unscaled = unscaled_.at(&optimizer);
  if (unscaled.stepped)
    throw Error("GradScaler::step()", "it was called for this optimizer already since the last update()",
                "Call update() after each step.");
  if (unscaled.found_inf.empty())
    throw Error("GradScaler::step()", "the optimizer has no gradients", "Call scale(loss).backward() first.");
  unscaled.stepped = true;
  if (fused) {
    const at::Tensor found = any_of(unscaled.found_inf);
    fused->step_scaled(divides ? scale_ : at::Tensor(), found);
    return StepTaken(found);
  }
  for (const at::Tensor& found : unscaled.found_inf)
    if (found.item<float>() != 0) return StepTaken(false);
  optimizer.step();
  return StepTaken(true);
}

void GradScaler::update() {
  if (unscaled_.empty())
    throw Error("GradScaler::update()", "no optimizer has been stepped since the last one", "Call step() first.");
  at::Tensor all = torch::zeros({1}, scale_.options());
  for (const auto& [optimizer, unscaled] : unscaled_)
    for (const at::Tensor& found : unscaled.found_inf) all += found.to(all.device());
  at::_amp_update_scale_(scale_, growth_tracker_, all, options_.growth_factor, options_.backoff_factor,
                         options_.growth_interval);
  unscaled_.clear();
}

ScalerState GradScaler::state() const {
  return scale_.defined() ? ScalerState{scale_.item<float>(), growth_tracker_.item<int>()} : loaded_;
}

void GradScaler::load(const ScalerState& state) {
  loaded_ = state;
  scale_ = growth_tracker_ = at::Tensor();
  unscaled_.clear();
}

}  // namespace ddprun
