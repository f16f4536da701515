// Handles a loss that is NaN or infinite: ends the run or skips the step, alike on all ranks, so that none hangs.
//
//   ddprun::LossGuard guard({.skips_in_a_row_max = 10}, group);
//   for (...) {
//     ddp.zero_grad();
//     at::Tensor loss = loss_of(ddp.forward(images), labels);
//     loss.backward();
//     if (guard.admits(loss, step)) optimizer.step();
//   }
//
// Call it between backward() and the step. Backward is a collective of DistributedDataParallel, whose forward pass
// expects one after it: a rank that skipped it would block the others or its own next step. Gradients are the mean over
// all ranks, so one rank's bad loss makes them invalid on every rank; only the optimizer's step can still be skipped. A
// skipped step leaves weights and optimizer unchanged; the next zero_grad() clears its gradients. Changes made by the
// forward pass itself remain: reset batch norm's running statistics by hand after bad inputs.
//
// With a GradScaler: call admits() before unscale(), and skip step() and update(), too. The scaler handles infinite
// gradients of a finite loss. For accumulated losses, passing their sum is enough.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ddprun/process_group.h"

#pragma GCC visibility push(default)
namespace ddprun {

struct LossGuardOptions {
  // How many steps in a row may be skipped; the next bad loss ends the run. 0: the first one ends it.
  int skips_in_a_row_max = 0;
};

// Not thread-safe. The options must be the same on all ranks.
class LossGuard {
 public:
  explicit LossGuard(const LossGuardOptions& options = {}, const ProcessGroup& group = default_group());

  // Whether all ranks' losses are finite, the same answer on all of them. `loss`: this rank's, of any shape. To end the
  // run, all ranks throw the same Error, which names `step` and the lowest rank whose loss was not finite; the group
  // stays usable. A collective of eight bytes; waits for the loss. PeerLost as in collectives.h.
  bool admits(const at::Tensor& loss, std::int64_t step);

  std::int64_t skipped() const { return skipped_; }  // steps since the beginning
  int skipped_in_a_row() const { return in_a_row_; }

 private:
  const LossGuardOptions options_;
  const ProcessGroup group_;
  std::int64_t skipped_ = 0;
  int in_a_row_ = 0;
};

}  // namespace ddprun
#pragma GCC visibility pop
