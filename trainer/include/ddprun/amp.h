// Mixed precision: autocast for the forward pass, and the scaler that fp16 needs for the backward pass.
//
//   ddprun::GradScaler scaler;
//   at::Tensor loss;
//   {
//     const ddprun::Autocast autocast(at::kCUDA, at::kHalf);
//     loss = loss_of(ddp.forward(images), labels);
//   }
//   scaler.scale(loss).backward();
//   scaler.unscale(optimizer);          // only if gradients are read before the step, as clip_grad_norm does
//   scaler.step(optimizer);             // skipped if a gradient is not finite
//   scaler.update();
//
// bfloat16 has float's range and needs no scaler. Values are those of torch.amp in PyTorch 2.11.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

// During its lifetime, operations of this thread that benefit compute in `type`. Weights and gradients stay float.
class Autocast {
 public:
  Autocast(at::DeviceType device, at::ScalarType type, bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const at::DeviceType device_;
  const bool was_enabled_;
  const at::ScalarType was_type_;
};

struct ScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // consecutive finite steps before the scale grows
};

// The part of a scaler that a snapshot saves.
struct ScalerState {
  double scale = 0;
  std::int64_t growth_tracker = 0;  // steps since the scale changed
};

// Whether a step was taken. After a fused one (optimizers.h) reading it waits for the GPU.
class StepTaken {
 public:
  explicit StepTaken(bool taken) : taken_(taken) {}
  explicit StepTaken(at::Tensor found_inf) : found_inf_(std::move(found_inf)) {}
  operator bool() const { return found_inf_.defined() ? found_inf_.item<float>() == 0 : taken_; }

 private:
  bool taken_ = false;
  at::Tensor found_inf_ = {};
};

// Gradients are already the mean over all ranks, so every rank decides alike. Works on the gradients' device; only
// step() waits for the GPU, because it needs the result: not with a fused optimizer of optimizers.h, whose kernel
// divides by the scale, unless unscale() has, and leaves out the step itself.
class GradScaler {
 public:
  explicit GradScaler(const ScalerOptions& options = {}) : options_(options), loaded_{options.init_scale, 0} {}

  at::Tensor scale(const at::Tensor& loss);
  // Call it at most once per step for each optimizer.
  void unscale(torch::optim::Optimizer& optimizer);
  // Call it once for each optimizer; it must have gradients.
  StepTaken step(torch::optim::Optimizer& optimizer);
  // Call it after all optimizers' step().
  void update();

  const ScalerOptions& options() const { return options_; }
  ScalerState state() const;
  void load(const ScalerState& state);

 private:
  void move_to(at::Device device);
  struct Unscaled;
  // Multiplies the gradients by `factor` and looks for infinite ones.
  Unscaled& multiply_gradients(torch::optim::Optimizer& optimizer, const at::Tensor& factor);

  const ScalerOptions options_;
  ScalerState loaded_;  // until there is a device
  at::Tensor scale_, growth_tracker_;
  struct Unscaled {
    std::vector<at::Tensor> found_inf;  // by device and type of the gradients
    bool stepped = false;
  };
  std::map<const torch::optim::Optimizer*, Unscaled> unscaled_;  // since the last update()
};

}  // namespace ddprun
#pragma GCC visibility pop
