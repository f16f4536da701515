// SGD, Adam and AdamW that step many parameters in a few kernels. Options and states are LibTorch's.
//
//   ddprun::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3), ddprun::StepMode::fused);
//
// Each is also the class of torch::optim that it is named for, and Snapshots (snapshot.h) saves it as such: a run may
// resume with another mode. Momentum, Nesterov, weight decay, amsgrad, groups of parameters, parameters without a
// gradient, and parameters of several devices and types are as in Python. Sparse gradients: SGD only, and not fused.
//
// Source: torch/optim/sgd.py and adam.py of PyTorch 2.15 (the same in 2.11): the same operations in the same order, so
// the same bits as foreach=True and fused=True. The steps of torch::optim round Adam's mean of the gradients otherwise
// than Python does.
#pragma once
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <unordered_map>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

enum class StepMode {
  automatic,      // foreach if all parameters are on GPUs, else per_parameter
  per_parameter,  // the step of torch::optim: several kernels for each parameter
  foreach,        // several kernels for all parameters: Python's default on GPUs
  fused,          // one kernel for all parameters, on CPUs and GPUs; reads and writes each number once
};

// An optimizer that takes GradScaler's numbers into its step (in Python: _step_supports_amp_scaling), so that nothing
// waits for a GPU. GradScaler (amp.h) finds out by itself.
class TakesScale {
 public:
  // Only if it is fused.
  virtual bool takes_scale() const = 0;
  // Divides the gradients by `grad_scale` and steps, unless `found_inf` is 1; then it changes nothing. Each is one
  // float on any device; an undefined grad_scale is 1.
  virtual void step_scaled(const at::Tensor& grad_scale, const at::Tensor& found_inf) = 0;
  // The counts of steps in Adam's states include those left out by found_inf, and lack those counted on the device,
  // until this corrects them. Waits for the GPU. save() and Snapshots call it.
  virtual void settle_steps() const = 0;

 protected:
  ~TakesScale() = default;
};

// An optimizer whose step a CUDA graph can repeat (in Python: capturable=True, and tensors as lr): the step reads what
// changes from step to step on the device.
class TakesGraph {
 public:
  // From now on learning rates and Adam's counts of steps are floats on the parameters' device, as in Python. Call it
  // once, after a state has been loaded. Throws Error if the mode is not fused.
  virtual void keep_numbers_on_device() = 0;
  // Copies learning rates that changed to the device. Call it before a step is recorded or repeated; step() does it,
  // too.
  virtual void send_rates() = 0;
  // Whether a step makes no tensor that the next step reads: every parameter that requires a gradient has its state.
  virtual bool has_all_states() const = 0;

 protected:
  ~TakesGraph() = default;
};

struct Scaling;  // of a gradient scaler

namespace detail {

// The learning rate of a group of parameters, on their device.
struct RateOnDevice {
  double sent = 0;
  at::Tensor number = {};
};
// Counts of steps, a float each, on the device of the state's parameter.
using CountsOnDevice = std::unordered_map<const torch::optim::OptimizerParamState*, at::Tensor>;

// How many of a state's steps were left out: one number on its device, shared by states of the same history.
using LeftOutSteps = std::unordered_map<const torch::optim::OptimizerParamState*, at::Tensor>;

template <class Base, class Options>
class Optimizer : public Base, public TakesScale, public TakesGraph {
 public:
  explicit Optimizer(std::vector<at::Tensor> parameters, Options options, StepMode mode = StepMode::automatic)
      : Base(std::move(parameters), std::move(options)), mode_(mode) {}
  explicit Optimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups, Options defaults,
                     StepMode mode = StepMode::automatic)
      : Base(groups, std::move(defaults)), mode_(mode) {}

  // Throws Error for gradients and parameters that the mode cannot take. Returns the closure's loss.
  at::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) override;
  StepMode mode() const { return mode_; }

  bool takes_scale() const override { return mode_ == StepMode::fused; }
  void step_scaled(const at::Tensor& grad_scale, const at::Tensor& found_inf) override;
  void settle_steps() const override;

  void keep_numbers_on_device() override;
  void send_rates() override;
  bool has_all_states() const override;

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void step_groups(const Scaling& scaling);

  const StepMode mode_;
  mutable LeftOutSteps left_out_;
  std::vector<RateOnDevice> rates_;  // by group of parameters; empty: numbers are on the host
  CountsOnDevice counts_;
};

extern template class Optimizer<torch::optim::SGD, torch::optim::SGDOptions>;
extern template class Optimizer<torch::optim::Adam, torch::optim::AdamOptions>;
extern template class Optimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

}  // namespace detail

using SGD = detail::Optimizer<torch::optim::SGD, torch::optim::SGDOptions>;
using Adam = detail::Optimizer<torch::optim::Adam, torch::optim::AdamOptions>;
using AdamW = detail::Optimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

}  // namespace ddprun
#pragma GCC visibility pop
