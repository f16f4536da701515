// Learning rates step by step, bit for bit as torch.optim.lr_scheduler computes them.
//
// Source: torch/optim/lr_scheduler.py of PyTorch 2.11. It computes most schedules recursively, each rate from the
// previous one, so rounding errors accumulate; ours accumulate to the same bits (cosine and powers: given the same C
// library). Names and defaults are PyTorch's. LibTorch's own StepLR lags by one call and is not used.
//
// A schedule owns no optimizer. set_lr.h sets its rate in LibTorch's optimizers; use one schedule per parameter group
// if groups have different rates.
#pragma once
#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

struct ConstantLR {         // lr * factor for total_iters steps, lr from then on
  double factor = 1.0 / 3;  // above 0, at most 1
  std::int64_t total_iters = 5;
};
struct LinearLR {                 // the usual warm-up: from lr * start_factor to lr * end_factor in total_iters steps
  double start_factor = 1.0 / 3;  // above 0, at most 1
  double end_factor = 1;          // 0 to 1
  std::int64_t total_iters = 5;
};
struct StepLR {  // times gamma every step_size steps
  std::int64_t step_size = 1;
  double gamma = 0.1;
};
struct MultiStepLR {  // times gamma at each milestone
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;
};
struct ExponentialLR {  // times gamma at each step
  double gamma = 0.9;
};
struct CosineAnnealingLR {  // down to eta_min in t_max steps along half a cosine, then up again
  std::int64_t t_max = 1;
  double eta_min = 0;
};
struct PolynomialLR {  // down to 0 in total_iters steps
  std::int64_t total_iters = 5;
  double power = 1;
};
struct LambdaLR {  // lr * factor(step); must be pure: resume() calls it for all steps again
  std::function<double(std::int64_t step)> factor;
};
using LrRule =
    std::variant<ConstantLR, LinearLR, StepLR, MultiStepLR, ExponentialLR, CosineAnnealingLR, PolynomialLR, LambdaLR>;

// One rule after the other: rules[i + 1] begins with its step 0 at step milestones[i].
struct SequentialLR {
  std::vector<LrRule> rules;             // at least one
  std::vector<std::int64_t> milestones;  // one fewer, rising, from 1
};

// Linear warm-up from lr * start_factor in `warmup_steps`, then a cosine that reaches eta_min at `total_steps`.
SequentialLR warmup_cosine(std::int64_t warmup_steps, std::int64_t total_steps, double start_factor = 0.01,
                           double eta_min = 0);

// A value. The caller chooses whether a step is an epoch or an optimizer's step.
class LrSchedule {
 public:
  // Throws one sentence if the rule's numbers are invalid.
  LrSchedule(double base_lr, LrRule rule);
  LrSchedule(double base_lr, SequentialLR rules);

  double lr() const { return lr_; }              // for the step that comes next
  std::int64_t steps() const { return steps_; }  // made so far: all that a snapshot has to save
  void step();                                   // after the optimizer's
  // Sets the state after `steps` calls of step() from the beginning. Computes each, 20 to 60 ns.
  void resume(std::int64_t steps);

 private:
  double base_lr_;
  SequentialLR rules_;
  std::int64_t steps_ = 0;
  double lr_ = 0;
};

}  // namespace ddprun
#pragma GCC visibility pop
