#include "trainer/ddp/snapshot/state_dict.h"

#include <torch/torch.h>

#include "rendezvous/base/error.h"
#include "trainer/ddp/snapshot/named_tensors.h"

namespace ddprun {
namespace {

Error mismatch_error(const std::string& source, const std::string& why) {
  return Error("cannot load " + source, why,
               "It belongs to another model or data set: name the one it was written with, or start over.");
}

at::Tensor find(const Dict& state, const std::string& name, const std::string& source) {
  for (const std::string& key : {name, "module." + name}) {
    const auto it = state.find(key);
    if (it != state.end() && it->value().isTensor()) return it->value().toTensor();
  }
  throw mismatch_error(source, "it has no tensor " + name);
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

void load_model_state(torch::nn::Module& model, const Dict& state, const std::string& source) {
  const torch::NoGradGuard no_grad;
  const auto tensors = named_tensors(model);
  if (state.size() != tensors.size())
    throw mismatch_error(source, "it has " + std::to_string(state.size()) + " tensors where the model has " +
                                     std::to_string(tensors.size()));
  std::vector<at::Tensor> all;  // checked first, then loaded: a mismatch leaves the model unchanged
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor& saved = all.emplace_back(find(state, name, source));
    if (saved.sizes() != tensor.sizes())
      throw mismatch_error(source, name + " is " + shape_text(saved.sizes()) + " in the file and " +
                                       shape_text(tensor.sizes()) + " in the model");
  }
  auto saved = all.begin();
  for (const auto& [name, tensor] : tensors) tensor.detach().copy_(*saved++);
}

}  // namespace ddprun
