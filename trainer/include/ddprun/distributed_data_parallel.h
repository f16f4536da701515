// DistributedDataParallel: every rank has the model, trains on its own samples and applies the mean of all gradients.
//
//   auto model = std::make_shared<Net>();
//   model->to(group.device());
//   ddprun::DistributedDataParallel ddp(model, {}, group);
//   torch::optim::SGD optimizer(model->parameters(), 0.1);
//   for (const Batch& batch : batches) {
//     ddp.zero_grad();
//     loss_of(ddp.forward(batch.images), batch.labels).backward();
//     optimizer.step();
//   }
//
// It uses c10d::Reducer, as Python's DDP does: gradients are reduced in buckets while backward still computes. Calls
// and their order follow torch/nn/parallel/distributed.py of PyTorch 2.11, so losses and weights equal Python's bit for
// bit.
//
// Construction, every forward and backward pass in training, and the first forward pass without gradients after one are
// collectives: all ranks call them in the same order. To evaluate on one rank alone, call the module itself. If a model
// differs from rank 0's, all ranks throw a sentence that names the rank and the parameter. A lost peer makes them throw
// (process_group.h). The caller keeps the module, but may change parameters in place only: it must not add or remove
// any, nor change requires_grad.
//
// Not thread-safe. Destroy it before its process group.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ddprun/process_group.h"

#pragma GCC visibility push(default)
namespace ddprun {

// The parameters of each bucket, by index among those with requires_grad. With three or more ranks, sums differ in the
// last bit if a parameter has another position in its bucket, so a resumed run must begin with the order that the first
// run ended with.
using BucketOrder = std::vector<std::vector<std::size_t>>;

struct DdpOptions {
  // Size of a bucket. Empty: PyTorch's sizes, 1 MiB for the first bucket that is ready and 25 MiB for the others.
  std::optional<std::size_t> bucket_bytes = {};
  // Gradients are stored in the buckets, which saves a copy of all of them. Then Optimizer::zero_grad() throws; use
  // zero_grad() below.
  bool gradient_as_bucket_view = false;
  // For models that use only part of their parameters in a step. Costs a traversal of the graph in each step.
  bool find_unused_parameters = false;
  // The same parameters are used in every step, in the same way: then unused ones need no traversal, and a parameter
  // may be used more than once.
  bool static_graph = false;
  // Every rank begins each forward pass with rank 0's buffers (running statistics of batch norm). May be disabled if
  // training does not read them, see broadcast_buffers(): weights stay bit for bit the same.
  bool broadcast_buffers = true;
  // From a snapshot. Empty: determined in the first step.
  BucketOrder bucket_order = {};
  // The copies of gradients into a bucket are made at once when all are there, and those back, too: fewer kernels, for
  // models of many small parameters on GPUs. The same bits where the number of ranks is a power of two; elsewhere, and
  // before LibTorch 2.15, it does nothing.
  bool batched_copies = false;
  // With a single rank gradients pass through the buckets, too, as PyTorch's do. Without it they stay as backward
  // leaves them, bit for bit the same; there are no times() then, no CommHook, and nobody tells unused parameters.
  bool reduces_alone = true;
  // Every hundredth step is measured, for times(). Without it only the first ten are, and a CUDA graph can record any
  // step after these: a measured one waits for the GPU.
  bool sampled_times = true;
};

// Reduces one bucket: the future's value is the mean of its buffer over all ranks, in a tensor of the buffer's shape
// and type. Called in backward, in the same order on all ranks; it must not block.
using CommHook =
    std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket& bucket, const ProcessGroup& group)>;
// Gradients are sent in half precision; sums are rounded to it.
CommHook fp16_compress_hook();
CommHook bf16_compress_hook();

// Averages over the sampled steps (the first ten, then every hundredth).
struct DdpTimes {
  std::chrono::nanoseconds forward{}, backward{};
  std::chrono::nanoseconds communication{};  // from the first bucket's start to the last one's end
  std::chrono::nanoseconds overlapped{};     // the part during backward's computation
};

namespace detail {

// The part that does not depend on the module's type.
class DdpCore {
 public:
  DdpCore(torch::nn::Module& module, const DdpOptions& options, const ProcessGroup& group);
  ~DdpCore();
  DdpCore(const DdpCore&) = delete;
  DdpCore& operator=(const DdpCore&) = delete;

  void before_forward();
  // Takes the tensors of the output; replaces some by others of the same values.
  void after_forward(const std::vector<at::Tensor*>& outputs);
  bool syncs() const;
  bool set_sync(bool on);  // returns the old value
  void broadcast_buffers();
  void register_comm_hook(CommHook hook);
  void zero_grad();
  BucketOrder bucket_order();
  DdpTimes times() const;
  const std::vector<std::string>& parameter_names() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The tensors in what a module's forward returns. For types of your own, write for_each_tensor(type&, f) beside them.
template <class F>
void for_each_tensor(at::Tensor& tensor, F&& f) {
  f(tensor);
}
template <class T, class F>
void for_each_tensor(std::vector<T>& values, F&& f);
template <class T, std::size_t n, class F>
void for_each_tensor(std::array<T, n>& values, F&& f);
template <class K, class T, class F>
void for_each_tensor(std::map<K, T>& values, F&& f);
template <class T, class F>
void for_each_tensor(std::optional<T>& value, F&& f);
template <class A, class B, class F>
void for_each_tensor(std::pair<A, B>& values, F&& f);
template <class... Ts, class F>
void for_each_tensor(std::tuple<Ts...>& values, F&& f);

template <class T, class F>
void for_each_tensor(std::vector<T>& values, F&& f) {
  for (T& value : values) for_each_tensor(value, f);
}
template <class T, std::size_t n, class F>
void for_each_tensor(std::array<T, n>& values, F&& f) {
  for (T& value : values) for_each_tensor(value, f);
}
template <class K, class T, class F>
void for_each_tensor(std::map<K, T>& values, F&& f) {
  for (auto& [key, value] : values) for_each_tensor(value, f);
}
template <class T, class F>
void for_each_tensor(std::optional<T>& value, F&& f) {
  if (value) for_each_tensor(*value, f);
}
template <class A, class B, class F>
void for_each_tensor(std::pair<A, B>& values, F&& f) {
  for_each_tensor(values.first, f);
  for_each_tensor(values.second, f);
}
template <class... Ts, class F>
void for_each_tensor(std::tuple<Ts...>& values, F&& f) {
  std::apply([&](auto&... value) { (for_each_tensor(value, f), ...); }, values);
}

}  // namespace detail

template <class Module>
class DistributedDataParallel {
 public:
  // Verifies that all ranks have the same parameters, then gives them rank 0's parameters and buffers.
  explicit DistributedDataParallel(std::shared_ptr<Module> module, const DdpOptions& options = {},
                                   const ProcessGroup& group = default_group())
      : module_(std::move(module)), core_(*module_, options, group) {}
  explicit DistributedDataParallel(const torch::nn::ModuleHolder<Module>& module, const DdpOptions& options = {},
                                   const ProcessGroup& group = default_group())
      : DistributedDataParallel(module.ptr(), options, group) {}

  // The module's own forward, with its own arguments.
  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    core_.before_forward();
    auto output = module_->forward(std::forward<Arguments>(arguments)...);
    std::vector<at::Tensor*> tensors;
    using detail::for_each_tensor;
    for_each_tensor(output, [&](at::Tensor& tensor) { tensors.push_back(&tensor); });
    core_.after_forward(tensors);
    return output;
  }
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  // During its lifetime, passes only accumulate this rank's gradients; the first pass after it reduces the sums. Both
  // forward and backward must be inside:
  //   { const auto pause = ddp.no_sync(); loss_of(ddp.forward(first)).backward(); }
  //   loss_of(ddp.forward(second)).backward();
  class [[nodiscard]] NoSync {
   public:
    NoSync(detail::DdpCore& core, bool on) : core_(core), before_(core.set_sync(core.syncs() && !on)) {}
    ~NoSync() { core_.set_sync(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    detail::DdpCore& core_;
    const bool before_;
  };
  // With `on` false it has no effect.
  NoSync no_sync(bool on = true) { return NoSync(core_, on); }

  // Copies rank 0's buffers to every rank, for example before an evaluation or a snapshot.
  void broadcast_buffers() { core_.broadcast_buffers(); }
  // At most one, before the first backward pass.
  void register_comm_hook(CommHook hook) { core_.register_comm_hook(std::move(hook)); }
  // Clears all gradients, also those stored in the buckets.
  void zero_grad() { core_.zero_grad(); }
  // The order that the next step will use. Call it after at least one step; a collective.
  BucketOrder bucket_order() { return core_.bucket_order(); }
  DdpTimes times() const { return core_.times(); }

  Module& module() { return *module_; }
  const Module& module() const { return *module_; }
  Module* operator->() { return module_.get(); }

 private:
  std::shared_ptr<Module> module_;
  detail::DdpCore core_;
};

}  // namespace ddprun
#pragma GCC visibility pop
