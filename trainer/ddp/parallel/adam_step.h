// The step of Adam and AdamW for a group of parameters. Source: torch/optim/adam.py of PyTorch 2.15,
// _multi_tensor_adam and _fused_adam.
#pragma once
#include "trainer/ddp/parallel/optimizer_step.h"

namespace ddprun {

struct AdamSettings {
  double lr, beta1, beta2, eps, weight_decay;
  bool amsgrad;
  bool decoupled;        // weight decay: AdamW
  at::Tensor rate = {};  // one float on the parameters' device, for fused steps; undefined: lr
};

enum AdamState : std::size_t { kExpAvg, kExpAvgSq, kMaxExpAvgSq };  // lists of StepLists::states; the last with amsgrad

// How many steps a parameter has taken, with this one: `steps` less `left_out`, one number on its device or undefined.
// Or, for fused steps, `on_device`, a float there; the others are not read then.
struct AdamCount {
  std::int64_t steps = 0;
  at::Tensor left_out = {};
  at::Tensor on_device = {};
};

// As `counts` has left-out steps, so only a fused step takes a scaling. Where memory has another layout than the
// parameter, `lists.states` has copies afterwards.
void step_adam(StepLists& lists, const std::vector<AdamCount>& counts, const AdamSettings& settings, bool fused,
               const Scaling& scaling);

}  // namespace ddprun
