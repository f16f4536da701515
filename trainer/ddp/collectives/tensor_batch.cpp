#include "ddprun/tensor_batch.h"

#include <torch/torch.h>

#include <sstream>

#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

std::string describe_part(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes() << ' ' << tensor.scalar_type();
  return text.str();
}

at::Tensor stacked(const std::vector<Tensors>& samples, std::size_t part, bool pin) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(samples.size());
  for (const auto& sample : samples) {
    const at::Tensor &first = samples[0][part], &tensor = sample[part];
    if (tensor.sizes() != first.sizes() || tensor.scalar_type() != first.scalar_type())
      throw Error("samples do not fit together", "part " + std::to_string(part) + " is " + describe_part(first) +
                                                     " in the first and " + describe_part(tensor) + " in another");
    tensors.push_back(tensor);
  }
  if (!pin || !tensors[0].is_cpu()) return at::stack(tensors);
  std::vector<std::int64_t> sizes = tensors[0].sizes().vec();
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(tensors.size()));
  at::Tensor result = at::empty(sizes, tensors[0].options().pinned_memory(true));  // allocated pinned: no second copy
  return at::stack_out(result, tensors);
}

}  // namespace

Tensors Collate::operator()(const std::vector<Tensors>& samples) const {
  const torch::NoGradGuard no_grad;  // a batch is data, whatever the transforms recorded
  const bool pin = pin_memory && torch::cuda::is_available();
  Tensors result;
  if (samples.empty()) return result;
  for (const auto& sample : samples)
    if (sample.size() != samples[0].size())
      throw Error("samples do not fit together", "the first has " + std::to_string(samples[0].size()) +
                                                     " parts and another " + std::to_string(sample.size()));
  for (std::size_t part = 0; part < samples[0].size(); ++part) result.push_back(stacked(samples, part, pin));
  return result;
}

}  // namespace ddprun
