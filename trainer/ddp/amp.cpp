#include "ddprun/amp.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <vector>

#include "rendezvous/error.h"

namespace ddprun {

Autocast::Autocast(at::DeviceType device, at::ScalarType type, bool enabled)
    : device_(device),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      was_type_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_dtype(device, type);
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();  // casts of weights, which now change
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
void GradScaler::unscale(torch::optim::Optimizer& optimizer) {
  if (found_inf_.contains(&optimizer))
    throw Error("GradScaler::unscale()", "it was called for this optimizer already since the last update()",
                "Call it once a step.");
  if (!scale_.defined())
    throw Error("GradScaler::unscale()", "no loss has been scaled yet", "Call scale(loss).backward() first.");
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      if (parameter.grad().scalar_type() == at::kHalf)
        throw Error("GradScaler::unscale()", "the gradients are fp16", "Keep the weights float: autocast casts them.");
      gradients.push_back(parameter.grad());
    }
  at::Tensor& found = found_inf_[&optimizer] = torch::zeros({1}, scale_.options());
  if (gradients.empty()) return;
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found,
                                                 scale_.to(torch::kDouble).reciprocal().to(torch::kFloat));
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!found_inf_.contains(&optimizer)) unscale(optimizer);
  if (found_inf_.at(&optimizer).item<float>() != 0) return false;
  optimizer.step();
  return true;
}

void GradScaler::update() {
  if (found_inf_.empty())
    throw Error("GradScaler::update()", "no optimizer has been stepped since the last one", "Call step() first.");
  at::Tensor found = torch::zeros({1}, scale_.options());
  for (const auto& [optimizer, one] : found_inf_) found += one;
  at::_amp_update_scale_(scale_, growth_tracker_, found, options_.growth_factor, options_.backoff_factor,
                         options_.growth_interval);
  found_inf_.clear();
}

ScalerState GradScaler::state() const {
  return scale_.defined() ? ScalerState{scale_.item<float>(), growth_tracker_.item<int>()} : loaded_;
}

void GradScaler::load(const ScalerState& state) {
  loaded_ = state;
  scale_ = growth_tracker_ = at::Tensor();
  found_inf_.clear();
}

}  // namespace ddprun
