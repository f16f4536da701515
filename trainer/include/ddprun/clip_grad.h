// Gradient clipping, bit for bit as in PyTorch.
//
//   loss.backward();                     // under DistributedDataParallel: the mean over the ranks, the same on all
//   ddprun::clip_grad_norm(model->parameters(), 1.0);
//   optimizer.step();
//
// With a GradScaler: call it after unscale(), before step(). Only error_if_nonfinite waits for the GPU.
//
// Source: torch/nn/utils/clip_grad.py of PyTorch 2.11. LibTorch's torch::nn::utils::clip_grad_norm_ divides in another
// order, so the last bits differ; it also waits for the GPU.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

// Multiplies all gradients by max_norm / (norm + 1e-6) if that is below 1; the norm is that of all gradients as one
// vector, of order norm_type (2, 1, any other, infinity). Parameters without a gradient are skipped. Returns the norm
// before clipping, a tensor of one number on the first gradient's device (0 if there are no gradients).
// error_if_nonfinite: if the norm is infinite or NaN, throws an Error and leaves the gradients unchanged; without it
// they are multiplied by the resulting factor.
at::Tensor clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2,
                          bool error_if_nonfinite = false);

// Clamps each element of each gradient to [-clip_value, clip_value]. NaN stays NaN.
void clip_grad_value(const std::vector<at::Tensor>& parameters, double clip_value);

}  // namespace ddprun
#pragma GCC visibility pop
