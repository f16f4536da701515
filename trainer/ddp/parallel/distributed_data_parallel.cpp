#include "ddprun/distributed_data_parallel.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/channel/beat_scope.h"
#include "trainer/ddp/parallel/gradient_wait.h"
#include "trainer/ddp/parallel/same_model.h"

namespace ddprun {
namespace {

using Future = c10::intrusive_ptr<c10::ivalue::Future>;

// PyTorch's own sizes; others give other buckets, hence other last bits.
constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;
constexpr std::int64_t kBucketBytes = c10d::kDefaultBucketBytesCap;
constexpr std::int64_t kFirstBucketBytes = c10d::kDefaultFirstBucketBytes;

// In Python's order: module by module; a shared parameter counts at its first occurrence.
struct Parameters {
  explicit Parameters(const torch::nn::Module& module);
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  std::vector<bool> sparse;  // gives a sparse gradient
};

bool gives_sparse_gradient(const torch::nn::Module& module) {
  if (const auto* embedding = module.as<torch::nn::EmbeddingImpl>()) return embedding->options.sparse();
  if (const auto* bag = module.as<torch::nn::EmbeddingBagImpl>()) return bag->options.sparse();
  return false;
}

Parameters::Parameters(const torch::nn::Module& module) {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& part : module.named_modules()) {
    for (const auto& item : part.value()->named_parameters(/*recurse=*/false)) {
      if (!item.value().requires_grad() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
      tensors.push_back(item.value());
      names.push_back(part.key().empty() ? item.key() : part.key() + "." + item.key());
      sparse.push_back(gives_sparse_gradient(*part.value()));
    }
  }
}

std::vector<at::Tensor> detached(const std::vector<at::Tensor>& tensors) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::vector<at::Tensor> result;
  for (const auto& tensor : tensors)
    if (seen.insert(tensor.unsafeGetTensorImpl()).second) result.push_back(tensor.detach());
  return result;
}

// Before the order of the gradients is known: one bucket or, if it will never be known, buckets in the model's order.
// Last parameter first: it is likely to be ready first.
BucketOrder initial_order(const Parameters& parameters, const DdpOptions& options) {
  std::vector<std::size_t> limits{std::numeric_limits<std::int64_t>::max()};
  if (options.find_unused_parameters && !options.static_graph) {
    if (options.bucket_bytes)
      limits = {*options.bucket_bytes};
    else
      limits = {static_cast<std::size_t>(kFirstBucketBytes), static_cast<std::size_t>(kBucketBytes)};
  }
  auto order = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters.tensors, limits, parameters.sparse));
  std::reverse(order.begin(), order.end());
  return order;
}

bool fits(const BucketOrder& order, std::size_t parameters) {
  std::vector<std::size_t> all;
  for (const auto& bucket : order) all.insert(all.end(), bucket.begin(), bucket.end());
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != i) return false;
  return all.size() == parameters;
}

// LibTorch 2.15's reducer takes one argument more: batched_grad_copy.
template <class... Arguments>
std::shared_ptr<c10d::Reducer> make_reducer(bool batched, Arguments&&... arguments) {
  if constexpr (std::is_constructible_v<c10d::Reducer, Arguments..., bool>)
    return std::make_shared<c10d::Reducer>(std::forward<Arguments>(arguments)..., batched);
  else
    return std::make_shared<c10d::Reducer>(std::forward<Arguments>(arguments)...);
}

class Hook : public c10d::CppCommHookInterface<CommHook> {
 public:
  Hook(CommHook hook, ProcessGroup group) : CppCommHookInterface(std::move(hook)), group_(std::move(group)) {}
  Future runHook(c10d::GradBucket& bucket) override { return state_(bucket, group_); }

 private:
  const ProcessGroup group_;
};

// torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py, _compress_hook
CommHook compress_hook(at::ScalarType type) {
  return [type](c10d::GradBucket& bucket, const ProcessGroup& group) {
    std::vector<at::Tensor> small{bucket.getBufferRef().to(type).div_(group.world_size())};
    return group.c10d()->allreduce(small)->getFuture()->then(
        [buffer = bucket.getBufferRef()](c10::ivalue::Future& done) {
          return c10::IValue(buffer.copy_(done.value().toTensorVector()[0]));
        },
        c10::TensorType::get());
  };
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

CommHook fp16_compress_hook() { return compress_hook(at::kHalf); }
CommHook bf16_compress_hook() { return compress_hook(at::kBFloat16); }

namespace detail {

struct DdpCore::Impl {
  Impl(torch::nn::Module& the_module, const DdpOptions& the_options, const ProcessGroup& the_group);

  bool syncs() const { return reducer && sync && torch::GradMode::is_enabled(); }
  [[noreturn]] void throw_with_names(const c10::Error& error) const;
  void send_buffers();
  void rebuild_buckets();

  torch::nn::Module& module;
  const DdpOptions options;
  const ProcessGroup group;
  const Parameters parameters;
  std::shared_ptr<c10d::Reducer> reducer;  // null: of a single rank, see DdpOptions::reduces_alone
  std::shared_ptr<c10d::Logger> logger;    // the reducer holds it weakly
  bool sync = true;
  bool buffers_due = true;
  GradientWait gradient_wait;
  std::shared_ptr<bool> reduction_requested = std::make_shared<bool>(false);  // by a static graph's first backward
};

namespace {

// Outputs pass through it. In a static graph's first pass it triggers the reduction, after the rest of backward; an
// output that is not part of the loss passes on no gradient instead of zeros. Python's _DDPSink.
class Sink : public torch::autograd::Node {
 public:
  Sink(std::weak_ptr<c10d::Reducer> reducer, std::shared_ptr<bool> requested, bool requests_reduction)
      : reducer_(std::move(reducer)), requested_(std::move(requested)), requests_reduction_(requests_reduction) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (requests_reduction_ && !std::exchange(*requested_, true))
      torch::autograd::Engine::get_default_engine().queue_callback([reducer = reducer_] {
        if (const auto locked = reducer.lock()) locked->delay_all_reduce();
      });
    return std::move(gradients);
  }

 private:
  const std::weak_ptr<c10d::Reducer> reducer_;
  const std::shared_ptr<bool> requested_;
  const bool requests_reduction_;
};

// PyTorch holds the graph's nodes by std::shared_ptr up to 2.11, by c10::intrusive_ptr in 2.15.
using NodePtr = decltype(torch::autograd::Edge::function);

template <class Pointer, class... Arguments>
Pointer make_sink(Arguments&&... arguments) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>)
    return std::make_shared<Sink>(std::forward<Arguments>(arguments)...);
  else
    return c10::make_intrusive<Sink>(std::forward<Arguments>(arguments)...);
}

void route_through(const NodePtr& sink, const std::vector<at::Tensor*>& outputs) {
  std::vector<at::Tensor*> with_history;
  torch::autograd::variable_list before;
  for (at::Tensor* const output : outputs) {
    if (!output->defined() || !output->grad_fn()) continue;
    with_history.push_back(output);
    before.push_back(*output);
  }
  sink->set_next_edges(torch::autograd::collect_next_edges(before));
  for (at::Tensor* const output : with_history) {
    *output = output->detach().clone();  // a clone may be changed in place
    torch::autograd::set_history(*output, sink);
  }
}

}  // namespace

DdpCore::Impl::Impl(torch::nn::Module& the_module, const DdpOptions& the_options, const ProcessGroup& the_group)
    : module(the_module), options(the_options), group(the_group), parameters(the_module) {
  const WaitScope wait("model", group.world_size() > 1);
  require_same_model(group, module);  // before any check that could fail on one rank only
  if (parameters.tensors.empty())
    throw Error("DistributedDataParallel has nothing to do", "no parameter of the module requires a gradient",
                "Use the module as it is.");
  auto state = detached(module.parameters());
  const auto buffers = detached(module.buffers());
  state.insert(state.end(), buffers.begin(), buffers.end());
  c10d::broadcast_coalesced(group.c10d(), state, kBroadcastBytes);

  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters.names.size(); ++i) names[i] = parameters.names[i];
  const std::int64_t cap = options.bucket_bytes ? static_cast<std::int64_t>(*options.bucket_bytes) : kBucketBytes;
  if (!options.reduces_alone && group.world_size() == 1) return;
  const bool is_exact =
      (group.world_size() & (group.world_size() - 1)) == 0;  // a power of two divides as it multiplies
  reducer = make_reducer(
      options.batched_copies && is_exact, parameters.tensors,
      fits(options.bucket_order, parameters.tensors.size()) ? options.bucket_order : initial_order(parameters, options),
      group.c10d(), parameters.sparse, cap, options.find_unused_parameters, options.gradient_as_bucket_view, names,
      options.bucket_bytes ? cap : kFirstBucketBytes, /*skip_all_reduce_unused_params=*/false,
      /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/std::vector<std::int64_t>{});
  logger = std::make_shared<c10d::Logger>(reducer);
  reducer->set_logger(logger);
  logger->set_construction_data_and_log(module.name(), {}, -1, options.broadcast_buffers, /*has_sync_bn=*/false,
                                        options.static_graph);
  if (!options.sampled_times) reducer->set_ddp_runtime_logging_sample_rate(std::numeric_limits<int>::max());
  if (!options.static_graph) return;
  reducer->set_static_graph();
  logger->set_static_graph();
}

// The reducer identifies parameters by index; users need their names.
void DdpCore::Impl::throw_with_names(const c10::Error& error) const {
  const std::string text = error.what_without_backtrace();
  const auto without_gradient = text.find("Parameter indices which did not receive grad for rank ");
  const auto colon = text.find(": ", std::min(without_gradient, text.size()));
  if (colon == std::string::npos) throw Error("DistributedDataParallel", first_line(text));
  std::vector<std::string> names;
  std::istringstream places(text.substr(colon + 2));
  for (std::size_t place; places >> place;) names.push_back(parameters.names.at(place));
  throw Error("the last step gave no gradient to " + first_names(names),
              "the loss does not depend on what they compute",
              "Set find_unused_parameters, or leave them out of the model; each forward pass needs a backward pass.");
}

void DdpCore::Impl::send_buffers() {
  if (group.world_size() == 1) return;
  const torch::NoGradGuard no_grad;
  const WaitScope wait("buffers", group.world_size() > 1);
  const auto buffers = detached(module.buffers());  // the module may have assigned new ones
  if (!buffers.empty()) c10d::broadcast_coalesced(group.c10d(), buffers, kBroadcastBytes);
}

void DdpCore::Impl::rebuild_buckets() {
  if (!reducer) return;
  const WaitScope wait("buckets", reducer->should_rebuild_buckets() && group.world_size() > 1);
  reducer->rebuild_buckets();
}

DdpCore::DdpCore(torch::nn::Module& module, const DdpOptions& options, const ProcessGroup& group)
    : impl_(std::make_unique<Impl>(module, options, group)) {}

DdpCore::~DdpCore() = default;

// In Python: _pre_forward.
void DdpCore::before_forward() try {
  if (impl_->syncs()) {
    impl_->logger->set_runtime_stats_and_log();
    impl_->reducer->prepare_for_forward();
  }
  if (torch::GradMode::is_enabled()) impl_->rebuild_buckets();  // takes effect once, before the second step
  if (impl_->buffers_due && impl_->options.broadcast_buffers) impl_->send_buffers();
} catch (const c10::DistError&) {
  throw;  // a lost peer
} catch (const c10::Error& error) {
  impl_->throw_with_names(error);
}

// In Python: _post_forward.
void DdpCore::after_forward(const std::vector<at::Tensor*>& outputs) try {
  if (!impl_->reducer) return;
  const DdpOptions& options = impl_->options;
  const bool traverses_graph = options.find_unused_parameters && !options.static_graph;
  impl_->buffers_due = impl_->syncs();
  if (impl_->syncs()) {
    std::vector<at::Tensor> tensors;
    if (traverses_graph)
      for (const at::Tensor* output : outputs)
        if (output->defined()) tensors.push_back(*output);
    impl_->reducer->prepare_for_backward(tensors);
  }
  if (traverses_graph || (options.static_graph && !*impl_->reduction_requested))
    route_through(make_sink<NodePtr>(impl_->reducer, impl_->reduction_requested, options.static_graph), outputs);
  if (impl_->syncs() && impl_->group.world_size() > 1) impl_->gradient_wait.watch(outputs, options.static_graph);
} catch (const c10::DistError&) {
  throw;
} catch (const c10::Error& error) {
  impl_->throw_with_names(error);
}

bool DdpCore::syncs() const { return impl_->sync; }

bool DdpCore::set_sync(bool on) { return std::exchange(impl_->sync, on); }

void DdpCore::broadcast_buffers() { impl_->send_buffers(); }

void DdpCore::register_comm_hook(CommHook hook) {
  if (!impl_->reducer)
    throw Error("DistributedDataParallel has no use for a hook", "a single rank reduces nothing",
                "Leave DdpOptions::reduces_alone on.");
  impl_->reducer->register_comm_hook(std::make_unique<Hook>(std::move(hook), impl_->group));
}

void DdpCore::zero_grad() {
  for (const at::Tensor& parameter : impl_->parameters.tensors) parameter.mutable_grad().reset();
}

BucketOrder DdpCore::bucket_order() {
  if (!impl_->reducer) return impl_->options.bucket_order;
  impl_->rebuild_buckets();  // not done yet after a single step
  std::unordered_map<const c10::TensorImpl*, std::size_t> places;
  for (const at::Tensor& parameter : impl_->parameters.tensors)
    places.emplace(parameter.unsafeGetTensorImpl(), places.size());
  BucketOrder order;
  for (const auto& bucket : impl_->reducer->get_grad_buckets(/*return_zero_tensors=*/false)) {
    order.emplace_back();
    for (const at::Tensor& parameter : bucket.getParameters())
      order.back().push_back(places.at(parameter.unsafeGetTensorImpl()));
  }
  return order;
}

DdpTimes DdpCore::times() const {
  if (!impl_->logger) return {};
  const auto data = impl_->logger->get_ddp_logging_data().ints_map;
  const auto time = [&](const char* key) {
    const auto found = data.find(key);
    return std::chrono::nanoseconds(found == data.end() ? 0 : found->second);
  };
  return {time("avg_forward_compute_time"), time("avg_backward_compute_time"), time("avg_backward_comm_time"),
          time("avg_backward_compute_comm_overlap_time")};
}

const std::vector<std::string>& DdpCore::parameter_names() const { return impl_->parameters.names; }

}  // namespace detail
}  // namespace ddprun
