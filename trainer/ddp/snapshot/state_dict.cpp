#include "trainer/ddp/snapshot/state_dict.h"

#include <torch/torch.h>

#include "trainer/ddp/snapshot/named_tensors.h"

namespace ddprun {
namespace {

// Undefined: there is none.
at::Tensor find(const Dict& state, const std::string& name) {
  for (const std::string& key : {name, "module." + name}) {
    const auto it = state.find(key);
    if (it != state.end() && it->value().isTensor()) return it->value().toTensor();
  }
  return {};
}

std::string shape_text(at::IntArrayRef sizes) {
  std::string result;
  for (const auto size : sizes) result += (result.empty() ? "" : " x ") + std::to_string(size);
  return result.empty() ? "one number" : result;
}

}  // namespace

Dict make_dict() { return Dict(c10::AnyType::get(), c10::AnyType::get()); }

Dict model_state(const torch::nn::Module& model) {
  Dict result = make_dict();
  for (const auto& [name, tensor] : named_tensors(model)) result.insert(name, tensor.detach());
  return result;
}

std::string model_mismatch(const torch::nn::Module& model, const Dict& state) {
  const auto tensors = named_tensors(model);
  if (state.size() != tensors.size())
    return "it has " + std::to_string(state.size()) + " tensors where the model has " + std::to_string(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor saved = find(state, name);
    if (!saved.defined()) return "it has no tensor " + name;
    if (saved.sizes() != tensor.sizes())
      return name + " is " + shape_text(saved.sizes()) + " in the file and " + shape_text(tensor.sizes()) +
             " in the model";
  }
  return "";
}

void load_model_state(torch::nn::Module& model, const Dict& state, const std::string& source) {
  // Checked first, then loaded: a mismatch leaves the model unchanged.
  if (const std::string why = model_mismatch(model, state); !why.empty())
    throw StateMismatch("cannot load " + source, why,
                        "It belongs to another model or data set: name the one it was written with, or start over.");
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : named_tensors(model)) tensor.detach().copy_(find(state, name));
}

}  // namespace ddprun
