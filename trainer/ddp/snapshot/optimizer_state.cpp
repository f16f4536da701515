#include "trainer/ddp/snapshot/optimizer_state.h"

#include <torch/torch.h>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "ddprun/optimizers.h"
#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

using List = c10::impl::GenericList;
using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;

StateMismatch optimizer_mismatch(const std::string& source, const std::string& why) {
  return StateMismatch("cannot load the optimizer's state from " + source, why,
                       "Name the optimizer and the model that it was written with, or start over.");
}

// One parameter's state. `find` returns a tensor of the parameter's shape, type and layout, or an undefined one if the
// state has none by that name.
struct Entry {
  const Dict& dict;
  const at::Tensor& parameter;
  const OptimizerOptions& options;  // of its group
  const std::string& source;

  at::Tensor find(const char* key) const {
    const auto it = dict.find(key);
    if (it == dict.end() || !it->value().isTensor()) return {};
    const at::Tensor tensor = it->value().toTensor();
    if (tensor.sizes() != parameter.sizes())
      throw optimizer_mismatch(source, std::string("its ") + key + " has other shapes than the model");
    return at::empty_like(parameter.detach(), at::MemoryFormat::Preserve).copy_(tensor);
  }
  at::Tensor get(const char* key) const {
    const at::Tensor tensor = find(key);
    if (!tensor.defined()) throw optimizer_mismatch(source, std::string("it is another optimizer's: it has no ") + key);
    return tensor;
  }
  // Python counts in a float tensor; older versions counted in an int.
  std::int64_t steps() const {
    const auto it = dict.find("step");
    if (it != dict.end() && it->value().isInt()) return it->value().toInt();
    if (it == dict.end() || !it->value().isTensor() || it->value().toTensor().numel() != 1)
      throw optimizer_mismatch(source, "it is another optimizer's: it has no step");
    return static_cast<std::int64_t>(it->value().toTensor().item<double>());
  }
};

// One of these per optimizer: its settings, and how to save and load a parameter's state.
struct SgdFormat {
  static void describe(const OptimizerOptions& base, Dict& group) {
    const auto& options = static_cast<const torch::optim::SGDOptions&>(base);
    group.insert("lr", options.lr());
    group.insert("momentum", options.momentum());
    group.insert("dampening", options.dampening());
    group.insert("weight_decay", options.weight_decay());
    group.insert("nesterov", options.nesterov());
    group.insert("maximize", false);
    group.insert("foreach", c10::IValue());
    group.insert("differentiable", false);
    group.insert("fused", c10::IValue());
  }
  static void write(const OptimizerParamState& base, Dict& entry) {
    const at::Tensor momentum = static_cast<const torch::optim::SGDParamState&>(base).momentum_buffer();
    if (momentum.defined()) entry.insert("momentum_buffer", momentum);
  }
  static std::unique_ptr<OptimizerParamState> read(const Entry& entry) {
    auto state = std::make_unique<torch::optim::SGDParamState>();
    const auto it = entry.dict.find("momentum_buffer");
    const bool none = entry.dict.empty() || (it != entry.dict.end() && it->value().isNone());  // without momentum
    state->momentum_buffer(none ? at::Tensor() : entry.get("momentum_buffer"));
    return state;
  }
};

template <class Options, class State, bool decoupled>
struct AdamFormat {
  static void describe(const OptimizerOptions& base, Dict& group) {
    const auto& options = static_cast<const Options&>(base);
    group.insert("lr", options.lr());
    group.insert("betas", c10::ivalue::Tuple::create(std::get<0>(options.betas()), std::get<1>(options.betas())));
    group.insert("eps", options.eps());
    group.insert("weight_decay", options.weight_decay());
    group.insert("amsgrad", options.amsgrad());
    group.insert("maximize", false);
    group.insert("foreach", c10::IValue());
    group.insert("capturable", false);
    group.insert("differentiable", false);
    group.insert("fused", c10::IValue());
    group.insert("decoupled_weight_decay", decoupled);
  }
  static void write(const OptimizerParamState& base, Dict& entry) {
    const auto& state = static_cast<const State&>(base);
    entry.insert("step", torch::tensor(static_cast<float>(state.step())));
    entry.insert("exp_avg", state.exp_avg());
    entry.insert("exp_avg_sq", state.exp_avg_sq());
    if (state.max_exp_avg_sq().defined()) entry.insert("max_exp_avg_sq", state.max_exp_avg_sq());
  }
  static std::unique_ptr<OptimizerParamState> read(const Entry& entry) {
    auto state = std::make_unique<State>();
    state->step(entry.steps());
    state->exp_avg(entry.get("exp_avg"));
    state->exp_avg_sq(entry.get("exp_avg_sq"));
    state->max_exp_avg_sq(static_cast<const Options&>(entry.options).amsgrad() ? entry.get("max_exp_avg_sq")
                                                                               : at::Tensor());
    return state;
  }
};

struct OptimizerFormat {
  void (*describe)(const OptimizerOptions& options, Dict& group);
  void (*write)(const OptimizerParamState& state, Dict& entry);
  std::unique_ptr<OptimizerParamState> (*read)(const Entry& entry);
};

template <class Format>
constexpr OptimizerFormat functions_of() {
  return {Format::describe, Format::write, Format::read};
}

OptimizerFormat format_of(const Optimizer& optimizer) {
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer)) return functions_of<SgdFormat>();
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer))
    return functions_of<AdamFormat<torch::optim::AdamOptions, torch::optim::AdamParamState, false>>();
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer))
    return functions_of<AdamFormat<torch::optim::AdamWOptions, torch::optim::AdamWParamState, true>>();
  throw Error("cannot save this optimizer's state", "it is not SGD, Adam or AdamW");
}

struct Parameter {
  at::Tensor tensor;
  const OptimizerOptions* options;
};

std::vector<Parameter> parameters_of(const Optimizer& optimizer) {
  std::vector<Parameter> result;
  for (const auto& group : optimizer.param_groups())
    for (const at::Tensor& tensor : group.params()) result.push_back({tensor, &group.options()});
  return result;
}

// Each group's number of parameters, and whether its weight decay is decoupled (AdamW).
std::vector<std::pair<std::size_t, bool>> groups_of(const Dict& state, const std::string& source) {
  std::vector<std::pair<std::size_t, bool>> result;
  const auto it = state.find("param_groups");
  if (it == state.end() || !it->value().isList()) throw optimizer_mismatch(source, "it has no 'param_groups'");
  for (const c10::IValue& group : it->value().toListRef()) {
    if (!group.isGenericDict() || !group.toGenericDict().contains("params") ||
        !group.toGenericDict().at("params").isList())
      throw optimizer_mismatch(source, "one of its groups has no parameters");
    const auto decoupled = group.toGenericDict().find("decoupled_weight_decay");  // missing in older versions
    const bool is_decoupled =
        decoupled != group.toGenericDict().end() && decoupled->value().isBool() && decoupled->value().toBool();
    result.emplace_back(group.toGenericDict().at("params").toListRef().size(), is_decoupled);
  }
  return result;
}

void require_same_groups(const Dict& saved, const Dict& own, const std::string& source) {
  const auto theirs = groups_of(saved, source), ours = groups_of(own, source);
  if (theirs.size() != ours.size())
    throw optimizer_mismatch(source, "it is of " + std::to_string(theirs.size()) + " groups of parameters, not of " +
                                         std::to_string(ours.size()));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (theirs[i].first != ours[i].first)
      throw optimizer_mismatch(source, "its group " + std::to_string(i) + " has " + std::to_string(theirs[i].first) +
                                           " parameters, not " + std::to_string(ours[i].first));
    if (theirs[i].second != ours[i].second)
      throw optimizer_mismatch(source, "it is another optimizer's: one is Adam, one AdamW");
  }
}

}  // namespace

Dict optimizer_state(const Optimizer& optimizer) {
  const OptimizerFormat format = format_of(optimizer);
  if (const auto* own = dynamic_cast<const TakesScale*>(&optimizer)) own->settle_steps();
  Dict state = make_dict();
  std::int64_t number = 0;
  List groups(c10::AnyType::get());
  for (const auto& group : optimizer.param_groups()) {
    Dict described = make_dict();
    format.describe(group.options(), described);
    List numbers(c10::AnyType::get());
    for (const at::Tensor& parameter : group.params()) {
      numbers.push_back(number);
      const auto it = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (it != optimizer.state().end()) {
        Dict entry = make_dict();
        format.write(*it->second, entry);
        state.insert(number, entry);
      }
      ++number;
    }
    described.insert("params", numbers);
    groups.push_back(described);
  }
  Dict result = make_dict();
  result.insert("state", state);
  result.insert("param_groups", groups);
  return result;
}

void load_optimizer_state(Optimizer& optimizer, const Dict& saved, const std::string& source) {
  const OptimizerFormat format = format_of(optimizer);
  const auto it = saved.find("state");
  if (it == saved.end() || !it->value().isGenericDict()) throw optimizer_mismatch(source, "it has no 'state'");
  require_same_groups(saved, optimizer_state(optimizer), source);
  const auto parameters = parameters_of(optimizer);
  std::vector<std::pair<void*, std::unique_ptr<OptimizerParamState>>> states;
  for (const auto& item : it->value().toGenericDict()) {
    const auto number = item.key().isInt() ? item.key().toInt() : -1;
    if (number < 0 || number >= static_cast<std::int64_t>(parameters.size()) || !item.value().isGenericDict())
      throw optimizer_mismatch(source, "it names a parameter that the optimizer does not have");
    const auto& [tensor, options] = parameters[static_cast<std::size_t>(number)];
    const Dict entry = item.value().toGenericDict();
    states.emplace_back(tensor.unsafeGetTensorImpl(), format.read({entry, tensor, *options, source}));
  }
  for (auto& [parameter, state] : states) optimizer.state()[parameter] = std::move(state);
}

}  // namespace ddprun
