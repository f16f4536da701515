#include "trainer/ddp/state_dict.h"

#include <torch/torch.h>

#include "rendezvous/error.h"

namespace ddprun {
namespace {

using List = c10::impl::GenericList;

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

std::vector<NamedTensor> named_tensors(const torch::nn::Module& model) {
  std::vector<NamedTensor> result;
  for (const auto& module : model.named_modules()) {
    const std::string prefix = module.key().empty() ? "" : module.key() + ".";
    for (const auto& item : module.value()->named_parameters(/*recurse=*/false))
      result.push_back({prefix + item.key(), item.value()});
    for (const auto& item : module.value()->named_buffers(/*recurse=*/false))
      result.push_back({prefix + item.key(), item.value()});
  }
  return result;
}

Error misfit(const std::string& source, const std::string& why) {
  return Error(
      "cannot load " + source, why,
      "It belongs to another model or data set: pass the --model and --dataset it was written with, or --fresh.");
}

at::Tensor find(const Dict& state, const std::string& name, const std::string& source) {
  for (const std::string& key : {name, "module." + name}) {
    const auto it = state.find(key);
    if (it != state.end() && it->value().isTensor()) return it->value().toTensor();
  }
  throw misfit(source, "it has no tensor " + name);
}

std::string words(at::IntArrayRef sizes) {
  std::string result;
  for (const auto size : sizes) result += (result.empty() ? "" : " x ") + std::to_string(size);
  return result.empty() ? "one number" : result;
}

Dict param_group(const torch::optim::SGDOptions& options, std::size_t parameters) {
  Dict group = make_dict();
  group.insert("lr", options.lr());
  group.insert("momentum", options.momentum());
  group.insert("dampening", options.dampening());
  group.insert("weight_decay", options.weight_decay());
  group.insert("nesterov", options.nesterov());
  group.insert("maximize", false);
  group.insert("foreach", c10::IValue());
  group.insert("differentiable", false);
  group.insert("fused", c10::IValue());
  List indices(c10::AnyType::get());
  for (std::size_t i = 0; i < parameters; ++i) indices.push_back(static_cast<std::int64_t>(i));
  group.insert("params", indices);
  return group;
}

}  // namespace

Dict make_dict() { return Dict(c10::AnyType::get(), c10::AnyType::get()); }

Dict model_state(const torch::nn::Module& model) {
  Dict result = make_dict();
  for (const auto& [name, tensor] : named_tensors(model)) result.insert(name, tensor.detach().cpu());
  return result;
}

void load_model_state(torch::nn::Module& model, const Dict& state, const std::string& source) {
  const torch::NoGradGuard no_grad;
  const auto tensors = named_tensors(model);
  if (state.size() != tensors.size())
    throw misfit(source, "it has " + std::to_string(state.size()) + " tensors where the model has " +
                             std::to_string(tensors.size()));
  for (auto& [name, tensor] : tensors) {
    const at::Tensor saved = find(state, name, source);
    if (saved.sizes() != tensor.sizes())
      throw misfit(source,
                   name + " is " + words(saved.sizes()) + " there and " + words(tensor.sizes()) + " in the model");
    tensor.detach().copy_(saved);
  }
}

Dict optimizer_state(const torch::optim::SGD& optimizer) {
  const auto& group = optimizer.param_groups().front();
  Dict state = make_dict();
  for (std::size_t i = 0; i < group.params().size(); ++i) {
    const auto it = optimizer.state().find(group.params()[i].unsafeGetTensorImpl());
    if (it == optimizer.state().end()) continue;
    const auto momentum = static_cast<const torch::optim::SGDParamState&>(*it->second).momentum_buffer();
    Dict entry = make_dict();
    if (momentum.defined()) entry.insert("momentum_buffer", momentum.cpu());
    state.insert(static_cast<std::int64_t>(i), entry);
  }
  List groups(c10::AnyType::get());
  groups.push_back(param_group(static_cast<const torch::optim::SGDOptions&>(group.options()), group.params().size()));
  Dict result = make_dict();
  result.insert("state", state);
  result.insert("param_groups", groups);
  return result;
}

void load_optimizer_state(torch::optim::SGD& optimizer, const Dict& saved, const std::string& source) {
  const auto it = saved.find("state");
  if (it == saved.end() || !it->value().isGenericDict()) throw misfit(source, "its optimizer state has no 'state'");
  const auto& params = optimizer.param_groups().front().params();
  for (const auto& item : it->value().toGenericDict()) {
    const auto number = item.key().isInt() ? item.key().toInt() : -1;
    if (number < 0 || number >= static_cast<std::int64_t>(params.size()) || !item.value().isGenericDict())
      throw misfit(source, "its optimizer state names a parameter that the model does not have");
    const auto entry = item.value().toGenericDict();
    const auto found = entry.find("momentum_buffer");
    if (found == entry.end() || !found->value().isTensor()) continue;
    const auto& parameter = params[static_cast<std::size_t>(number)];
    if (found->value().toTensor().sizes() != parameter.sizes())
      throw misfit(source, "its momentum has other shapes than the model");
    auto state = std::make_unique<torch::optim::SGDParamState>();
    state->momentum_buffer(found->value().toTensor().to(parameter.device(), parameter.scalar_type(),
                                                        /*non_blocking=*/false, /*copy=*/true));
    optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
  }
}

}  // namespace ddprun
