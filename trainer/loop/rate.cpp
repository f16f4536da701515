#include "trainer/loop/rate.h"

#include <string>

#include "rendezvous/base/error.h"

namespace ddprun::train {
namespace {

LrRule rule_of(const ScheduleOptions& o, double lr, std::int64_t units) {
  if (o.name == "step") return StepLR{.step_size = o.step_size, .gamma = o.gamma};
  if (o.name == "exponential") return ExponentialLR{.gamma = o.gamma};
  if (o.name == "cosine") return CosineAnnealingLR{.t_max = units, .eta_min = o.min_lr};
  if (o.name == "linear") return LinearLR{.start_factor = 1, .end_factor = o.min_lr / lr, .total_iters = units};
  return ConstantLR{.factor = 1, .total_iters = 1};
}

}  // namespace

LrSchedule make_schedule(const Options& options, std::int64_t steps_per_epoch) {
  const ScheduleOptions& o = options.schedule;
  const std::int64_t units = options.training.epochs * (o.unit == "step" ? steps_per_epoch : 1);
  if (o.warmup >= units && o.warmup > 0)
    throw Error("cannot make the schedule",
                "--warmup is " + std::to_string(o.warmup) + " and the run has " + std::to_string(units) + " " + o.unit +
                    "s in all",
                "Warm up for fewer of them, or train for longer.");
  const double lr = options.optimizer.lr;
  if (o.name == "linear" && o.min_lr > lr)
    throw Error("cannot make the schedule", "schedule.min_lr is above the learning rate", "Lower it.");
  const LrRule rule = rule_of(o, lr, units - o.warmup);
  if (o.warmup == 0) return {lr, rule};
  // Starts at 1 / (warmup + 1), the first of that many equal steps.
  const LinearLR rise{
      .start_factor = 1.0 / static_cast<double>(o.warmup + 1), .end_factor = 1, .total_iters = o.warmup};
  return {lr, SequentialLR{.rules = {rise, rule}, .milestones = {o.warmup}}};
}

}  // namespace ddprun::train
