// DistributedDataParallel: every rank has the model, sees its own samples and steps by the mean of all gradients.
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
// The work is c10d::Reducer's, the same that Python's DDP stands on: gradients travel in buckets while backward still
// computes. Calls and their order follow torch/nn/parallel/distributed.py of PyTorch 2.11, so losses and weights equal
// Python's bit for bit.
//
// Construction, every forward and backward pass in training, and the first forward pass without gradients after one are
// collectives: all ranks do the same in the same order. To evaluate on one rank alone, call the module itself. A model
// that differs from rank 0's is refused on all ranks by one sentence that names the rank and the parameter. A lost peer
// makes them throw (process_group.h). The module stays the caller's: change its parameters in place only, and neither
// add nor remove any, nor change requires_grad.
//
// For one thread. Destroy it before its process group.
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

// The parameters of each bucket, by their place among those with requires_grad. Sums over three and more ranks differ
// in the last bit when a parameter sits elsewhere in its bucket, so a resumed run must begin with the order that the
// first one had come to.
using BucketOrder = std::vector<std::vector<std::size_t>>;

struct DdpOptions {
  // How much of the gradients travels at once. Nothing: PyTorch's sizes, 1 MiB for the first bucket that is ready and
  // 25 MiB for the others.
  std::optional<std::size_t> bucket_bytes = {};
  // Gradients lie in the buckets themselves: saves a copy of all of them. Then Optimizer::zero_grad() throws; ours
  // (below) works.
  bool gradient_as_bucket_view = false;
  // For models that use only part of their parameters in a step. Costs a walk over the graph each step.
  bool find_unused_parameters = false;
  // The same parameters are used in every step, in the same way: then unused ones need no walk, and a parameter may be
  // used more than once.
  bool static_graph = false;
  // Every rank begins each forward pass with rank 0's buffers (running statistics of batch norm). Where training does
  // not read them it may be left out, see broadcast_buffers(): weights stay the same bits.
  bool broadcast_buffers = true;
  // Of a snapshot. Empty: found in the first step.
  BucketOrder bucket_order = {};
};

// Reduces one bucket: the future's value is the mean of its buffer over all ranks, in a tensor of the buffer's shape
// and type. Called in backward, in the same order on all ranks; it must not block.
using CommHook =
    std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket& bucket, const ProcessGroup& group)>;
// Gradients travel as half precision; sums are rounded to it.
CommHook fp16_compress_hook();
CommHook bf16_compress_hook();

// Of the steps that were sampled (the first ten, then every hundredth), on average.
struct DdpTimes {
  std::chrono::nanoseconds forward{}, backward{};
  std::chrono::nanoseconds communication{};  // from the first bucket's start to the last one's end
  std::chrono::nanoseconds overlapped{};     // of it, while backward still computed
};

namespace detail {

// All of it that does not depend on the module's type.
class DdpCore {
 public:
  DdpCore(torch::nn::Module& module, const DdpOptions& options, const ProcessGroup& group);
  ~DdpCore();
  DdpCore(const DdpCore&) = delete;
  DdpCore& operator=(const DdpCore&) = delete;

  void before_forward();
  // The tensors of the output; some are replaced by others of the same values.
  void after_forward(const std::vector<at::Tensor*>& outputs);
  bool syncs() const;
  bool set_sync(bool on);  // returns what it was
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

  // While it lives, passes add up this rank's gradients only; the first pass after it sends the sums. Forward and
  // backward belong inside:
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
  // `on` false: as if it were not there.
  NoSync no_sync(bool on = true) { return NoSync(core_, on); }

  // Gives every rank rank 0's buffers, as before an evaluation or a snapshot.
  void broadcast_buffers() { core_.broadcast_buffers(); }
  // At most one, before the first backward pass.
  void register_comm_hook(CommHook hook) { core_.register_comm_hook(std::move(hook)); }
  // Forgets all gradients, also where they lie in the buckets.
  void zero_grad() { core_.zero_grad(); }
  // As the next step will use it. Ask after at least one step; a collective.
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
