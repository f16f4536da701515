// How many steps of a run lie between two snapshots in memory. Pure: equal calls give equal answers.
//
// On a GPU, where a snapshot can take longer than the steps of a small model, it is what keeps them below a share of
// the time, by what they were measured to cost. All ranks keep the same steps, so they agree on it now and then.
#pragma once
#include <chrono>
#include <cstdint>

namespace ddprun::train {

class KeepInterval {
 public:
  using Seconds = std::chrono::duration<double>;
  static constexpr double kShareMax = 0.02;
  static constexpr std::int64_t kStepsMax = 1 << 20;

  // `chosen`: of --memory-steps; 0: none is kept.
  KeepInterval(std::int64_t chosen, bool on_gpu);

  bool is_due(std::int64_t step) const { return steps_ > 0 && step % steps_ == 0; }
  std::int64_t steps() const { return steps_; }

  // Whether the ranks agree on another one after this step, the `done`-th of this process: more and more rarely.
  bool is_agreed_after(std::int64_t done) const;
  // What this rank takes for right. `step`: a step's time. `cost`: what a snapshot takes of the host and the device.
  std::int64_t proposal(Seconds step, Seconds cost) const;
  // The largest of the ranks' proposals.
  void set(std::int64_t steps) { steps_ = steps; }

 private:
  bool by_cost_;
  std::int64_t steps_;
};

}  // namespace ddprun::train
