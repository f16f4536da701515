// BatchNorm whose mean and variance are computed over the samples of all ranks.
//
// Use SyncBatchNorm in place of BatchNorm1d, 2d or 3d. Without a group it equals that layer, bit for bit; with one,
// every rank computes what BatchNorm in one process would compute on the whole batch, however unevenly it is
// distributed. Parameters, buffers and their names are BatchNorm's, so each loads the other's snapshots.
//
// Source: torch/nn/modules/_functions.py of PyTorch 2.11, which has it for GPUs only. Statistics of the ranks are
// merged pairwise by mean and squared deviations (Chan, Golub, LeVeque 1983), as E[x^2] - E[x]^2 loses all digits where
// the mean is large. On a GPU PyTorch's fused kernels do it, and the host waits for the GPU only without a momentum or
// where it has fewer than two values per channel.
#pragma once
#include <torch/nn/modules/batchnorm.h>

#include <cstddef>

#include "ddprun/process_group.h"

#pragma GCC visibility push(default)
namespace ddprun {

class SyncBatchNormImpl : public torch::nn::BatchNormImplBase<2, SyncBatchNormImpl> {
 public:
  explicit SyncBatchNormImpl(std::int64_t num_features)
      : SyncBatchNormImpl(torch::nn::BatchNormOptions(num_features)) {}
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options) : BatchNormImplBase(options) {}
  // Replaces this layer and takes over its parameters and buffers.
  template <std::size_t dimensions, class Layer>
  explicit SyncBatchNormImpl(const torch::nn::BatchNormImplBase<dimensions, Layer>& layer)
      : SyncBatchNormImpl(layer.options) {
    adopt({layer.weight, layer.bias}, {layer.running_mean, layer.running_var, layer.num_batches_tracked});
    train(layer.is_training());
  }

  // input [n, num_features, ...] float, bfloat16 or half -> the same shape and type. In training with a group, forward
  // and backward are collectives: all ranks call them in the same order. A rank may have no sample (n = 0).
  at::Tensor forward(const at::Tensor& input);

  // Synchronises with this group from now on. Use the group for nothing else: its collectives run in backward, too,
  // between DDP's own. An empty group ends the synchronisation.
  void synchronize(const ProcessGroup& group) { group_ = group; }
  bool is_synchronized() const { return static_cast<bool>(group_); }

  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const at::Tensor& input) override;

 private:
  struct Parameters {
    at::Tensor weight, bias;
  };
  struct Buffers {
    at::Tensor running_mean, running_var, num_batches_tracked;
  };
  void adopt(const Parameters& parameters, const Buffers& buffers);
  at::Tensor forward_on_cpu(const at::Tensor& input);
  at::Tensor forward_fused(const at::Tensor& input);
  double next_average_factor();
  void update_running(const at::Tensor& mean, const at::Tensor& unbiased_variance);

  ProcessGroup group_;
};
TORCH_MODULE(SyncBatchNorm);

// Synchronises all BatchNorm layers of a module tree with the group; returns their number. Without a group it makes a
// new one of all ranks: every rank calls it. In a Sequential, BatchNorm1d, 2d and 3d are replaced by SyncBatchNorm with
// the same tensors. One that is a module's member cannot be replaced from outside: an error names the layer, and
// nothing is changed. A shared_ptr must own `root`.
std::size_t convert_sync_batchnorm(torch::nn::Module& root, const ProcessGroup& group = {});

}  // namespace ddprun
#pragma GCC visibility pop
