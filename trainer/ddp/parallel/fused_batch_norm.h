// Training with SyncBatchNorm by LibTorch's fused kernels, which exist for GPUs only. The host waits for no result: the
// ranks' numbers of values stay on the device.
//
// Source: torch/nn/modules/_functions.py of PyTorch 2.15.
#pragma once
#include <ATen/core/Tensor.h>

#include "ddprun/process_group.h"

namespace ddprun {

struct BatchStatistics {
  at::Tensor
      ranks;  // [ranks, 2 * channels + 1] float, or double for doubles: mean, inverse deviation, values per channel
  at::Tensor counts() const { return ranks.select(1, ranks.size(1) - 1); }
};

// A collective. input [n, channels, ...], and n may be 0.
BatchStatistics gather_batch_statistics(const at::Tensor& input, double eps, const ProcessGroup& group);

// Updated in place with the share `momentum` of the batch's statistics; undefined: there are none.
struct RunningStatistics {
  at::Tensor mean, variance;
  double momentum = 0;
};

struct AffineWeights {
  at::Tensor weight, bias;  // [channels], or both undefined
};

// The normalised input, of its shape and type. Its backward is a collective, too.
at::Tensor fused_batch_norm(const at::Tensor& input, const AffineWeights& affine, const BatchStatistics& statistics,
                            const RunningStatistics& running, double eps, const ProcessGroup& group);

}  // namespace ddprun
