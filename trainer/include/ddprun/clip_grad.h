// Gradients made smaller before a step, with PyTorch's bits.
//
//   loss.backward();                     // under DistributedDataParallel: the mean over the ranks, the same on all
//   ddprun::clip_grad_norm(model->parameters(), 1.0);
//   optimizer.step();
//
// With a GradScaler: after unscale(), before step(). Nothing is waited for on a GPU, but for error_if_nonfinite.
//
// Source: torch/nn/utils/clip_grad.py of PyTorch 2.11. LibTorch's torch::nn::utils::clip_grad_norm_ divides in another
// order and so differs in the last bits; it waits for the GPU, too.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

// Multiplies all gradients by max_norm / (norm + 1e-6) where that is below 1; the norm is that of all of them as one
// vector, of order norm_type (2, 1, any other, infinity). Parameters without a gradient are passed over. Returns the
// norm before clipping, a tensor of one number on the first gradient's device (0 where there is none).
// error_if_nonfinite: an Error, and the gradients as they were, where the norm is infinite or NaN; else they are
// multiplied by what comes of it.
at::Tensor clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2,
                          bool error_if_nonfinite = false);

// Each element of each gradient into [-clip_value, clip_value]. NaN stays NaN.
void clip_grad_value(const std::vector<at::Tensor>& parameters, double clip_value);

}  // namespace ddprun
#pragma GCC visibility pop
