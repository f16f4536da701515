#include "trainer/loop/transfer.h"

#include <torch/torch.h>

#include <algorithm>

#include "ddprun/weights.h"
#include "rendezvous/base/error.h"

namespace ddprun::train {

std::string load_initial_weights(torch::nn::Module& model, const ModelOptions& options) {
  const bool partial = !options.transfer.empty();
  const std::string& path = partial ? options.transfer : options.init;
  if (path.empty()) return "";
  const LoadReport report =
      load_weights(model, path,
                   {.partial = partial,
                    .skip = options.skip,
                    .remedy = partial ? "Name weights of this model with --transfer, or choose theirs with --model."
                                      : "Name weights of this model with --init, or take what fits with --transfer.",
                    .what = partial ? "the weights of --transfer" : "the weights of --init"});
  const std::string text = partial ? report.text() : report.prefix_text();
  return text.empty() ? "" : "weights of " + path + ": " + text;
}

void freeze_all_but(torch::nn::Module& model, const std::vector<std::string>& prefixes) {
  if (prefixes.empty()) return;
  const auto parameters = model.named_parameters();
  for (const std::string& prefix : prefixes) {
    const auto matches = [&](const auto& one) { return one.key().starts_with(prefix); };
    if (std::none_of(parameters.begin(), parameters.end(), matches))
      throw UsageError("cannot train only '" + prefix + "'", "no weight's name begins with it",
                       "The last one is " + parameters.back().key() + ".");
  }
  for (const auto& one : parameters) {
    const auto begins = [&](const std::string& prefix) { return one.key().starts_with(prefix); };
    one.value().set_requires_grad(std::any_of(prefixes.begin(), prefixes.end(), begins));
  }
}

void train_mode(torch::nn::Module& model) {
  model.train();
  for (const auto& module : model.modules()) {
    const auto parameters = module->parameters(/*recurse=*/false);
    const bool has_statistics = !module->buffers(/*recurse=*/false).empty();
    const auto is_frozen = [](const at::Tensor& one) { return !one.requires_grad(); };
    if (has_statistics && !parameters.empty() && std::all_of(parameters.begin(), parameters.end(), is_frozen))
      module->eval();
  }
}

}  // namespace ddprun::train
