// A loss that is NaN or infinite ends the run, or costs one step; the same on all ranks, and none of them waits in
// vain.
//
//   ddprun::LossGuard guard({.skips_in_a_row_max = 10}, group);
//   for (...) {
//     ddp.zero_grad();
//     at::Tensor loss = loss_of(ddp.forward(images), labels);
//     loss.backward();
//     if (guard.admits(loss, step)) optimizer.step();
//   }
//
// It stands between backward() and the step. Backward is a collective of DistributedDataParallel, whose forward pass
// expects one after it: a rank that left it out would stop the others, or the next step. Gradients are the mean over
// all ranks, so one rank's bad loss has spoiled them on every rank, and what is decided here is all that is left to
// decide. A skipped step leaves weights and optimizer untouched; its gradients go with the next zero_grad(). What a
// forward pass changes by itself stays changed: batch norm's running statistics of bad inputs are to be reset by hand.
//
// With a GradScaler: ask before unscale(), and leave step() and update() out, too. Infinite gradients of a finite loss
// are the scaler's matter. Of accumulated losses, the sum is as good as each.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ddprun/process_group.h"

#pragma GCC visibility push(default)
namespace ddprun {

struct LossGuardOptions {
  // So many steps in a row are skipped; the next bad loss ends the run. 0: the first one does.
  int skips_in_a_row_max = 0;
};

// For one thread. The options are the same on all ranks.
class LossGuard {
 public:
  explicit LossGuard(const LossGuardOptions& options = {}, const ProcessGroup& group = default_group());

  // Whether all ranks' losses are finite, the same answer on all of them. `loss`: this rank's, of any shape. Where the
  // run is to end: on all ranks the same Error, which names `step` and the lowest rank whose loss was not finite, and
  // leaves the group usable. A collective of eight bytes; waits for the loss. PeerLost as in collectives.h.
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
