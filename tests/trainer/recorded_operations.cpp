#include "tests/trainer/recorded_operations.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <stdexcept>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace ddprun::test {
namespace {

// Below autograd and above the CPU's kernels. LibTorch has no kernels for it.
constexpr c10::DispatchKey kKey = c10::DispatchKey::CustomRNGKeyId;

RecordedOperations* recording = nullptr;

void intercept_any(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, std::vector<c10::IValue>* stack) {
  const c10::impl::ExcludeDispatchKeyGuard not_again(kKey);
  recording->intercept(operation, keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), *stack);
}

at::Tensor bytes_of(const c10::Storage& storage) {
  return at::empty({0}, at::kByte).set_(storage, 0, {static_cast<std::int64_t>(storage.nbytes())}, {1});
}

void copy_results(const c10::IValue& to, const c10::IValue& from) {
  if (to.isTensor()) {
    const at::Tensor &old = to.toTensor(), &now = from.toTensor();
    if (old.defined() && old.data_ptr() != now.data_ptr()) old.copy_(now);
  } else if (to.isTensorList()) {
    for (std::size_t i = 0; i < to.toTensorVector().size(); ++i)
      copy_results(to.toTensorVector()[i], from.toTensorVector()[i]);
  }
}

// A collective's work is the last of its results.
void wait_for(const std::vector<c10::IValue>& results) {
  if (!results.empty() && results.back().isObject()) results.back().toCustomClass<c10d::Work>()->wait();
}

}  // namespace

TORCH_LIBRARY_IMPL(_, CustomRNGKeyId, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&intercept_any>());
}

// These have one kernel for all keys, which writes to memory itself instead of starting other operations.
TORCH_LIBRARY_IMPL(aten, CustomRNGKeyId, library) {
  for (const char* name : {"copy_", "convolution", "convolution_backward"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&intercept_any>());
}

void RecordedOperations::keep(const c10::IValue& argument) {
  if (argument.isTensorList() || argument.isList())
    for (const c10::IValue& one : argument.toListRef()) keep(one);
  if (!argument.isTensor() || !argument.toTensor().defined()) return;
  const c10::Storage& storage = argument.toTensor().storage();
  const void* const key = storage.unsafeGetStorageImpl();
  if (!before_.contains(key)) before_.emplace(key, std::pair(storage, bytes_of(storage).clone()));
}

void RecordedOperations::restore() {
  for (const auto& [key, kept] : before_)
    if (const at::Tensor now = bytes_of(kept.first); now.numel() == kept.second.numel()) now.copy_(kept.second);
  before_.clear();
}

void RecordedOperations::intercept(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                                   std::vector<c10::IValue>& stack) {
  if (operation.schema().name() == "aten::_local_scalar_dense")
    throw std::runtime_error("operation not permitted when stream is capturing");
  const auto count = static_cast<std::ptrdiff_t>(operation.schema().arguments().size());
  const std::vector<c10::IValue> arguments(stack.end() - count, stack.end());
  for (const c10::IValue& argument : arguments) keep(argument);
  operation.redispatchBoxed(keys, &stack);
  const auto results = static_cast<std::ptrdiff_t>(operation.schema().returns().size());
  operations_.push_back({operation, arguments, {stack.end() - results, stack.end()}});
}

void RecordedOperations::record(const std::function<void()>& step) {
  const at::Generator random = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = random.get_state();
  recording = this;
  {
    const c10::impl::IncludeDispatchKeyGuard intercepts(kKey);
    step();
  }
  recording = nullptr;
  const torch::NoGradGuard no_grad;
  restore();
  at::Generator(random).set_state(state);
}

void RecordedOperations::replay() {
  const torch::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const Operation& one : operations_) {
    std::vector<c10::IValue> stack = one.arguments;
    one.operation.callBoxed(&stack);
    wait_for(stack);
    for (std::size_t i = 0; i < one.results.size(); ++i) copy_results(one.results[i], stack[i]);
  }
  ++replays_;
}

}  // namespace ddprun::test
