#include "trainer/ddp.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <unordered_map>

namespace ddprun {
namespace {

// PyTorch's own sizes; other ones make other buckets, hence other last bits.
constexpr std::int64_t kBucketBytes = c10d::kDefaultBucketBytesCap;
constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;

std::vector<at::Tensor> detached(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const auto& tensor : tensors) result.push_back(tensor.detach());
  return result;
}

// Before the order of the gradients is known all of them share one bucket, last parameter first.
BucketOrder first_order(const std::vector<at::Tensor>& parameters) {
  const std::vector<std::size_t> no_limit{std::numeric_limits<std::int64_t>::max()};
  auto order = std::get<0>(
      c10d::compute_bucket_assignment_by_size(parameters, no_limit, std::vector<bool>(parameters.size(), false)));
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

Ddp::Ddp(std::shared_ptr<Model> model, Group group, const BucketOrder& resumed)
    : model_(std::move(model)), group_(std::move(group)) {
  std::unordered_map<std::size_t, std::string> names;
  for (const auto& item : model_->named_parameters()) {
    if (!item.value().requires_grad()) continue;
    names[parameters_.size()] = item.key();
    parameters_.push_back(item.value());
  }
  c10d::verify_params_across_processes(group_, parameters_, std::nullopt);
  auto state = detached(model_->parameters());
  for (const auto& buffer : detached(model_->buffers())) state.push_back(buffer);
  c10d::broadcast_coalesced(group_, state, kBroadcastBytes);
  reducer_ = std::make_shared<c10d::Reducer>(
      parameters_, resumed.empty() ? first_order(parameters_) : resumed, group_,
      /*expect_sparse_gradients=*/std::vector<bool>(parameters_.size(), false), kBucketBytes,
      /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/false, names, c10d::kDefaultFirstBucketBytes, /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/std::vector<std::int64_t>{});
}

at::Tensor Ddp::forward(const at::Tensor& input) {
  reducer_->prepare_for_forward();
  reducer_->rebuild_buckets();  // acts once, before the second step
  if (model_->training_reads_buffers()) broadcast_buffers();
  at::Tensor output = model_->forward(input);
  reducer_->prepare_for_backward({});
  return output;
}

void Ddp::broadcast_buffers() {
  const torch::NoGradGuard no_grad;
  const auto buffers = detached(model_->buffers());
  if (!buffers.empty()) c10d::broadcast_coalesced(group_, buffers, kBroadcastBytes);
}

BucketOrder Ddp::bucket_order() {
  reducer_->rebuild_buckets();  // after a single step it is still to come
  std::unordered_map<const c10::TensorImpl*, std::size_t> index;
  for (const auto& parameter : parameters_) index.emplace(parameter.unsafeGetTensorImpl(), index.size());
  BucketOrder order;
  for (const auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
    order.emplace_back();
    for (const auto& parameter : bucket.getParameters())
      order.back().push_back(index.at(parameter.unsafeGetTensorImpl()));
  }
  return order;
}

}  // namespace ddprun
