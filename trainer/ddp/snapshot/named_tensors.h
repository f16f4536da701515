// A model's parameters and buffers under the names and in the order of Python's Module.state_dict(): module by module,
// parameters before buffers. Undefined tensors (a layer without bias) are omitted.
#pragma once
#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace ddprun {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // the model's own
};

// Recurses over children: Module::named_modules() would need the model itself to be in a shared_ptr.
inline void add_named_tensors(const torch::nn::Module& module, const std::string& prefix,
                              std::vector<NamedTensor>& all) {
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    all.push_back({prefix + item.key(), item.value()});
  for (const auto& item : module.named_buffers(/*recurse=*/false)) all.push_back({prefix + item.key(), item.value()});
  for (const auto& child : module.named_children()) add_named_tensors(*child.value(), prefix + child.key() + ".", all);
}

inline std::vector<NamedTensor> named_tensors(const torch::nn::Module& model) {
  std::vector<NamedTensor> all;
  add_named_tensors(model, "", all);
  return all;
}

}  // namespace ddprun
