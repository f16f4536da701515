#include "ddprun/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/overloaded.h"

namespace ddprun {
namespace {

double power(double base, std::int64_t exponent) { return std::pow(base, static_cast<double>(exponent)); }

// The rate at a rule's own step 0. `sequenced`: it follows another rule; there PyTorch uses the closed form, which
// gives other bits for the cosine only.
double first_lr(const LrRule& rule, double base, bool sequenced) {
  return std::visit(
      overloaded{
          [&](const ConstantLR& r) { return base * r.factor; },
          [&](const LinearLR& r) { return base * r.start_factor; },
          [&](const MultiStepLR& r) {
            return base * power(r.gamma, std::count(r.milestones.begin(), r.milestones.end(), 0));
          },
          [&](const CosineAnnealingLR& r) { return sequenced ? r.eta_min + (base - r.eta_min) * 2 / 2 : base; },
          [&](const LambdaLR& r) { return base * r.factor(0); },
          [&](const auto&) { return base; },
      },
      rule);
}

double next_cosine(const CosineAnnealingLR& r, double base, double lr, std::int64_t step) {
  using std::numbers::pi;
  const auto t_max = static_cast<double>(r.t_max);
  const auto cosine = [&](std::int64_t at) { return std::cos(pi * static_cast<double>(at) / t_max); };
  if ((step - 1 - r.t_max) % (2 * r.t_max) == 0)  // rising again: the ratio below would divide by zero
    return lr + (base - r.eta_min) * (1 - std::cos(pi / t_max)) / 2;
  return (1 + cosine(step)) / (1 + cosine(step - 1)) * (lr - r.eta_min) + r.eta_min;
}

// From the previous step's rate; step >= 1.
double next_lr(const LrRule& rule, double base, double lr, std::int64_t step) {
  const auto at = static_cast<double>(step);
  return std::visit(
      overloaded{
          [&](const ConstantLR& r) { return step == r.total_iters ? lr * (1.0 / r.factor) : lr; },
          [&](const LinearLR& r) {
            if (step > r.total_iters) return lr;
            const double rise = r.end_factor - r.start_factor;
            return lr * (1.0 + rise / (static_cast<double>(r.total_iters) * r.start_factor + (at - 1) * rise));
          },
          [&](const StepLR& r) { return step % r.step_size == 0 ? lr * r.gamma : lr; },
          [&](const MultiStepLR& r) {
            const auto times = std::count(r.milestones.begin(), r.milestones.end(), step);
            return times > 0 ? lr * power(r.gamma, times) : lr;
          },
          [&](const ExponentialLR& r) { return lr * r.gamma; },
          [&](const CosineAnnealingLR& r) { return next_cosine(r, base, lr, step); },
          [&](const PolynomialLR& r) {
            const auto total = static_cast<double>(r.total_iters);
            return step > r.total_iters ? lr : lr * std::pow((1.0 - at / total) / (1.0 - (at - 1) / total), r.power);
          },
          [&](const LambdaLR& r) { return base * r.factor(step); },
      },
      rule);
}

// Empty if the rule is valid.
std::string problem(const LrRule& rule) {
  const auto at_least_1 = [](const char* name, std::int64_t value) {
    return value >= 1 ? "" : std::string(name) + " is " + std::to_string(value) + " and has to be at least 1";
  };
  const auto within = [](const char* name, double value, bool with_0) {
    return (value > 0 || (with_0 && value == 0)) && value <= 1
               ? ""
               : std::string(name) + " is " + std::to_string(value) + " and has to be " +
                     (with_0 ? "0 to 1" : "above 0 and at most 1");
  };
  const auto first_problem = [](std::string a, std::string b) { return a.empty() ? std::move(b) : std::move(a); };
  return std::visit(
      overloaded{
          [&](const ConstantLR& r) {
            return first_problem(within("factor", r.factor, false), at_least_1("total_iters", r.total_iters));
          },
          [&](const LinearLR& r) {
            return first_problem(
                first_problem(within("start_factor", r.start_factor, false), within("end_factor", r.end_factor, true)),
                at_least_1("total_iters", r.total_iters));
          },
          [&](const StepLR& r) { return at_least_1("step_size", r.step_size); },
          [&](const MultiStepLR& r) -> std::string {
            const bool negative = std::any_of(r.milestones.begin(), r.milestones.end(), [](auto m) { return m < 0; });
            return negative ? "a milestone is below 0" : "";
          },
          [&](const ExponentialLR&) -> std::string { return ""; },
          [&](const CosineAnnealingLR& r) { return at_least_1("t_max", r.t_max); },
          [&](const PolynomialLR& r) { return at_least_1("total_iters", r.total_iters); },
          [&](const LambdaLR& r) -> std::string { return r.factor ? "" : "it has no function"; },
      },
      rule);
}

std::string problem(const SequentialLR& s) {
  if (s.rules.empty()) return "it has no rule";
  if (s.milestones.size() + 1 != s.rules.size())
    return std::to_string(s.rules.size()) + " rules need " + std::to_string(s.rules.size() - 1) +
           " milestones between them, and it has " + std::to_string(s.milestones.size());
  for (std::size_t i = 0; i < s.milestones.size(); ++i)
    if (s.milestones[i] <= (i == 0 ? 0 : s.milestones[i - 1])) return "its milestones do not rise from 1";
  for (const auto& rule : s.rules)
    if (auto why = problem(rule); !why.empty()) return why;
  return "";
}

}  // namespace

SequentialLR warmup_cosine(std::int64_t warmup_steps, std::int64_t total_steps, double start_factor, double eta_min) {
  return {.rules = {LinearLR{.start_factor = start_factor, .total_iters = warmup_steps},
                    CosineAnnealingLR{.t_max = total_steps - warmup_steps, .eta_min = eta_min}},
          .milestones = {warmup_steps}};
}

LrSchedule::LrSchedule(double base_lr, LrRule rule) : LrSchedule(base_lr, SequentialLR{{std::move(rule)}, {}}) {}

LrSchedule::LrSchedule(double base_lr, SequentialLR rules) : base_lr_(base_lr), rules_(std::move(rules)) {
  if (const auto why = problem(rules_); !why.empty()) throw Error("cannot schedule the learning rate", why);
  lr_ = first_lr(rules_.rules[0], base_lr_, false);
}

void LrSchedule::step() {
  ++steps_;
  const auto& milestones = rules_.milestones;
  const auto rule = std::upper_bound(milestones.begin(), milestones.end(), steps_) - milestones.begin();
  const std::int64_t began = rule == 0 ? 0 : milestones[static_cast<std::size_t>(rule - 1)];
  const LrRule& now = rules_.rules[static_cast<std::size_t>(rule)];
  lr_ = steps_ == began ? first_lr(now, base_lr_, true) : next_lr(now, base_lr_, lr_, steps_ - began);
}

void LrSchedule::resume(std::int64_t steps) {
  if (steps < 0)
    throw Error("cannot resume the learning rate's schedule", "it was saved after " + std::to_string(steps) + " steps");
  steps_ = 0;
  lr_ = first_lr(rules_.rules[0], base_lr_, false);
  while (steps_ < steps) step();
}

}  // namespace ddprun
